"""How long DNS queries take: the distribution of response times on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter

from narrows.report import marks, style
from narrows.report.source import NONE, retry_marks
from narrows.report.style import CYCLE
from narrows.report.units import Milliseconds
from narrows.results import Run


@style.styled
def response_cdf(
    runs: Mapping[str, Run],
    others: Mapping[str, Sequence[Run]] = NONE,
    group: str | None = None,
) -> Figure:
    """Share of the measured queries that were answered within a time.

    Unanswered queries count as never answered, so a curve with any ends below 100 %. Queries that
    were open when the run ended count for as long as they waited. A single run has a curve for each
    DNS group. Thin vertical lines mark attempts 2, 3, ... of the runs' retry schedule.

    Args:
        runs: Runs by label.
        others: Other seeds of the runs. A curve shows the queries of all seeds, with a thin curve
            behind it for each seed.
        group: Show only this DNS group's queries.
    """
    figure, axes = style.new_figure(height=3.6)
    lowest, highest = np.inf, 1.0
    curves = _by_run(runs, others, group)
    for index, (label, seeds) in enumerate(curves):
        x, y = _shares(pl.concat(seeds))
        if len(x) == 0:
            continue
        again, color = divmod(index, len(CYCLE))
        dashes = "--" if again else "-"
        axes.step(*_few(x, y), where="post", color=CYCLE[color], linestyle=dashes, label=label)
        if len(seeds) > 1:
            for one in seeds:
                style.faint(axes, *_few(*_shares(one)), CYCLE[color], "steps-post")
        lowest, highest = min(lowest, float(x[0])), max(highest, float(x[-1]))
    is_log = _range(axes, lowest, highest)
    axes.set_ylim(0.0, 104.0)
    for moment, words in retry_marks(list(runs.values())):
        if lowest < 1e3 * moment < highest:
            marks.moment(axes, 1e3 * moment, words, upright=True)
    whose = "" if group is None else f" of {group}"
    axes.set_title(f"DNS response time{whose}, from the first attempt to the answer")
    axes.set_xlabel("response time, logarithmic" if is_log else "response time")
    axes.set_ylabel("queries answered\nwithin this time (%)")
    if len(curves) > 1:
        style.below(figure, 3)
    return figure


def _range(axes: Axes, low: float, high: float) -> bool:
    """Fits the horizontal axis to the data; returns whether it is logarithmic.

    It is logarithmic unless the longest time is less than three times the shortest.
    """
    known = np.isfinite(low)
    low = max(low, 1e-3)
    axes.xaxis.set_major_formatter(_time)
    if known and high < _NARROW * low:
        margin = max(_MARGIN * (high - low), 5e-4 * high)
        axes.set_xlim(low - margin, high + margin)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        return False
    axes.set_xscale("log")
    if known:
        factor = (high / low) ** _MARGIN
        low, high = low / factor, high * factor
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(FixedLocator(_moments(low, high)))
    axes.xaxis.set_major_formatter(_time)
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="minor", axis="x", linewidth=0.4)
    return True


def _moments(low: float, high: float) -> list[float]:
    """Round times for a logarithmic axis, as many as have room for their labels."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    each = _WIDTH / math.log(high / low)
    found: list[float] = []
    for digits in _ROUND:
        found = [d * 10.0**n for n in decades for d in digits if low <= d * 10.0**n <= high]
        widths = [style.text_width(_time(moment), 10.5) for moment in found]
        fit = (
            each * math.log(b / a) >= (of_a + of_b) / 2.0 + _APART
            for (a, b), (of_a, of_b) in zip(pairwise(found), pairwise(widths), strict=True)
        )
        if all(fit):
            break
    return found


_time = Milliseconds()
_NARROW = 3.0
"""The axis is logarithmic if the longest time is at least this many times the shortest."""
_MARGIN = 0.04
"""The share of the axis that is free at each end."""
_WIDTH = 430.0
"""The least width of the axes, in points."""
_APART = 8.0
"""The distance between labels, in points."""
_ROUND = (
    (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0, 3.0),
    (1.0,),
)
"""Digits of labels, the most first."""


def _by_run(
    runs: Mapping[str, Run], others: Mapping[str, Sequence[Run]], group: str | None
) -> list[tuple[str, list[pl.DataFrame]]]:
    """The name of each curve, and its queries for each seed."""
    named = [
        (label, [_waits(each, group) for each in (run, *others.get(label, ()))])
        for label, run in runs.items()
    ]
    if len(named) > 1 or len(named[0][1]) > 1:
        return named
    groups = named[0][1][0].partition_by("group", as_dict=True, maintain_order=True)
    if not 1 < len(groups) <= 2 * len(CYCLE):
        return named
    return [(str(name), [measured]) for (name,), measured in groups.items()]


def _waits(run: Run, group: str | None) -> pl.DataFrame:
    """How long the measured queries of all groups, or of one, waited.

    Columns: `group`, `wait_ms`, and `answered`. A query that was given up waits forever; one that
    was open when the run ended waited until then.
    """
    measured = run.queries.filter(pl.col("measured"))
    if group is not None:
        measured = measured.filter(group=group)
    open_ms = 1e3 * (run.end_s - pl.col("start_s"))
    return measured.select(
        "group",
        pl.col("response_ms").is_not_null().alias("answered"),
        pl.coalesce(
            "response_ms",
            pl.when(pl.col("end_s").is_null()).then(open_ms).otherwise(float("inf")),
        ).alias("wait_ms"),
    )


def _shares(waits: pl.DataFrame) -> tuple[style.Floats, style.Floats]:
    """Response times in order, and the share in percent of the queries that were answered by then.

    Open queries count for as long as they waited (Kaplan and Meier 1958). Without open ones, this
    is the plain share.
    """
    ordered = waits.sort("wait_ms", pl.col("answered").not_())
    times = ordered.get_column("wait_ms").to_numpy()
    answered = ordered.get_column("answered").to_numpy()
    waiting = np.arange(len(times), 0, -1)
    left = np.cumprod(np.where(answered, 1.0 - 1.0 / waiting, 1.0))
    times, shares = times[answered], 100.0 * (1.0 - left[answered])
    return np.concatenate([times[:1], times]), np.concatenate([np.zeros(len(times[:1])), shares])


def _few(x: style.Floats, y: style.Floats, most: int = 2_000) -> tuple[style.Floats, style.Floats]:
    """A monotone curve with at most `most` points; keeps the first and the last."""
    if len(x) <= most:
        return x, y
    keep = np.unique(np.linspace(0, len(x) - 1, most).astype(int))
    return x[keep], y[keep]
