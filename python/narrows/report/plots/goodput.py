"""What groups of TCP connections deliver over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.figure import Figure

from narrows.records.numbers import Floats
from narrows.report import seeds, style
from narrows.report.plots.over_time import as_steps, averages, over_time
from narrows.report.source import NONE
from narrows.report.style import CYCLE
from narrows.results import Run
from narrows.results.goodput import delivered, goodput_of, goodput_series

_MOST = 200
"""The most intervals of a curve; with more, the segments of slow connections look like noise."""

_ROUND_TRIPS = 4
"""Repairing a loss takes a round trip or two; what was held back meanwhile is delivered at once."""

_LABEL = "goodput (Mbit/s)"


@style.styled
def goodput(run: Run) -> Figure:
    """Goodput of each group of TCP connections; if there are many, only of the largest groups."""
    figure, axes = style.new_figure(height=3.4)
    shown = goodput_groups(run)
    top = 0.0
    for color, series in zip(CYCLE, shown, strict=False):
        curve = _curve(run, series)
        name = series_name(series, shown)
        top = max(top, averages(axes, *curve, color=color, label=name, linewidth=1.1))
    over_time(axes, [run], top, "Goodput of TCP, by group", _LABEL)
    if len(shown) > 1:
        style.below(figure, 3)
    return figure


@style.styled
def goodputs(
    runs: Mapping[str, Run],
    series: tuple[str, str],
    name: str,
    others: Mapping[str, Sequence[Run]] = NONE,
) -> Figure:
    """Goodput of one group of TCP connections in several runs, drawn over each other.

    Args:
        runs: Runs by label.
        series: A group and a direction; each run has samples of them.
        name: Their name.
        others: Other seeds of the runs.
    """
    figure, axes = style.new_figure(height=3.0)
    top = 0.0
    for index, (label, run) in enumerate(runs.items()):
        each = [_steps(one, series) for one in (run, *others.get(label, ()))]
        top = max(top, seeds.draw(axes, each, label, CYCLE[index % len(CYCLE)], "steps-pre"))
    over_time(axes, list(runs.values()), top, f"Goodput of {name}", _LABEL)
    style.below(figure, 3)
    return figure


def _steps(run: Run, series: tuple[str, str]) -> seeds.Curve:
    """The ends of the intervals from zero on, and the goodput in the interval before each."""
    return as_steps(*_curve(run, series))


def _curve(run: Run, series: tuple[str, str]) -> tuple[Floats, Floats]:
    """The goodput in intervals that last `_ROUND_TRIPS` of the slowest connection or more."""
    trips = run.flows.filter(pl.col("group") == series[0]).get_column("srtt_ms").drop_nulls()
    slowest_s = 1e-3 * max(trips.to_list(), default=0.0)
    return goodput_of(run.goodput, *series, most=_MOST, least_s=_ROUND_TRIPS * slowest_s)


def goodput_groups(run: Run) -> list[tuple[str, str]]:
    """Groups with directions, in the scenario's order; if there are many, only the largest."""
    series = goodput_series(run.goodput)
    carried = delivered(run.goodput)
    most = sorted(series, key=lambda each: -carried[each])[: len(CYCLE)]
    return [each for each in series if each in most]


def series_name(series: tuple[str, str], among: Sequence[tuple[str, str]]) -> str:
    """The group's name, and the direction if others of the group go the other way."""
    group, direction = series
    directions = [other for other, _ in among].count(group)
    return f"{group}, {direction}" if directions > 1 else group
