"""What groups of TCP connections carry over time, as far as bursts tell when."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.figures.over_time import averages, over_time
from narrows.report.style import CYCLE, Floats
from narrows.results import Run

__all__ = ["endless_groups", "goodput", "goodput_series"]

_BINS = 100


@style.styled
def goodput(run: Run) -> Figure:
    """Goodput of each group of TCP connections with bursts; of many groups, only the largest."""
    figure, axes = style.new_figure(height=3.4)
    series = goodput_series(run)
    most = sorted(series, key=lambda group: -float(series[group][1].sum()))[: len(CYCLE)]
    shown = [group for group in series if group in most]
    top = 0.0
    for color, group in zip(CYCLE, shown, strict=False):
        top = max(top, averages(axes, *series[group], color=color, label=group))
    over_time(axes, [run], top, "Goodput of TCP, by group", "goodput (Mbit/s)")
    if len(shown) > 1:
        style.below(figure, 3)
    return figure


def goodput_series(run: Run) -> dict[str, tuple[Floats, Floats]]:
    """For each group with bursts: the ends of a hundred parts of the run, and Mbit/s in each.

    A burst's bytes are spread evenly from its start to its end. For a connection without bursts,
    which sends as long as it lives, only the total is known, and nothing about its course.
    """
    if run.bursts.is_empty() or run.end_s <= 0.0:
        return {}
    edges = np.linspace(0.0, run.end_s, _BINS + 1)
    flows = run.flows.select("flow", "group")
    columns = ("group", "start_s", "end_s", "bytes")
    pieces = run.bursts.join(flows, on="flow").select(columns).drop_nulls("end_s")
    found = {}
    for group in pieces.get_column("group").unique(maintain_order=True):
        part = pieces.filter(pl.col("group") == group)
        carried = _carried(part, edges)
        found[str(group)] = (edges, 8e-6 * np.diff(carried) / np.diff(edges))
    return found


def endless_groups(run: Run) -> list[str]:
    """The groups of connections whose goodput has no course over time: they have no bursts."""
    endless = run.flows.join(run.bursts, on="flow", how="anti")
    groups = endless.get_column("group").unique(maintain_order=True)
    bursting = run.flows.join(run.bursts, on="flow", how="semi").get_column("group")
    return [str(group) for group in groups.filter(~groups.is_in(bursting.unique().to_list()))]


def _carried(pieces: pl.DataFrame, times: Floats) -> Floats:
    """The bytes that all bursts together have carried by each time."""
    if pieces.is_empty():
        return np.zeros_like(times)
    starts, ends = (pieces.get_column(name).to_numpy() for name in ("start_s", "end_s"))
    # A burst that takes no time gets the shortest time that shows.
    ends = np.maximum(ends, starts + 1e-9)
    rates = pieces.get_column("bytes").to_numpy() / (ends - starts)
    moments = np.concatenate([starts, ends])
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    slopes = np.cumsum(np.concatenate([rates, -rates])[order])
    sums = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(moments))])
    return np.asarray(np.interp(times, moments, sums), dtype=np.float64)
