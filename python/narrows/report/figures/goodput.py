"""What the groups of TCP connections carry over time."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.style import CYCLE, Floats
from narrows.results import Run

__all__ = ["goodput", "goodput_series"]

_BINS = 100


@style.styled
def goodput(run: Run) -> Figure:
    """Goodput of each group of TCP connections; the largest groups, where there are many."""
    figure, axes = style.new_figure(height=3.4)
    series = goodput_series(run)
    most = sorted(series, key=lambda group: -float(series[group][1].sum()))[: len(CYCLE)]
    shown = [group for group in series if group in most]
    for color, group in zip(CYCLE, shown, strict=False):
        edges, rates = series[group]
        axes.stairs(rates, edges, baseline=None, color=color, label=group, linewidth=1.4)
    style.from_zero(axes, max((float(series[group][1].max()) for group in shown), default=0.0))
    axes.set_xlim(0.0, run.end_s)
    axes.set_title("Goodput of TCP, by group")
    axes.set_xlabel("time (s)")
    axes.set_ylabel("goodput (Mbit/s)")
    if len(shown) > 1:
        style.below(figure, 3)
    return figure


def goodput_series(run: Run) -> dict[str, tuple[Floats, Floats]]:
    """For each group the ends of a hundred equal parts of the run, and its Mbit/s in each.

    A burst's bytes spread evenly from its start to its end. Of a connection without bursts only the
    sum is known, which spreads over its lifetime.
    """
    if run.flows.is_empty() or run.end_s <= 0.0:
        return {}
    edges = np.linspace(0.0, run.end_s, _BINS + 1)
    flows = run.flows.select("flow", "group")
    columns = ("group", "start_s", "end_s", "bytes")
    bursts = run.bursts.join(flows, on="flow").select(columns).drop_nulls("end_s")
    whole = (
        run.flows.join(run.bursts, on="flow", how="anti")
        .with_columns(
            pl.col("established_s").alias("start_s"),
            pl.col("end_s").fill_null(run.end_s).clip(upper_bound=run.end_s),
            pl.col("bytes_received").alias("bytes"),
        )
        .select(columns)
        .drop_nulls("start_s")
    )
    pieces = pl.concat([bursts, whole], how="vertical_relaxed")
    found = {}
    for group in flows.get_column("group").unique(maintain_order=True):
        part = pieces.filter(pl.col("group") == group)
        carried = _carried(part, edges)
        found[str(group)] = (edges, 8e-6 * np.diff(carried) / np.diff(edges))
    return found


def _carried(pieces: pl.DataFrame, times: Floats) -> Floats:
    """The bytes that all pieces together have carried by each time."""
    if pieces.is_empty():
        return np.zeros_like(times)
    starts, ends = (pieces.get_column(name).to_numpy() for name in ("start_s", "end_s"))
    # What takes no time takes the shortest that shows.
    ends = np.maximum(ends, starts + 1e-9)
    rates = pieces.get_column("bytes").to_numpy() / (ends - starts)
    moments = np.concatenate([starts, ends])
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    slopes = np.cumsum(np.concatenate([rates, -rates])[order])
    sums = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(moments))])
    return np.asarray(np.interp(times, moments, sums), dtype=np.float64)
