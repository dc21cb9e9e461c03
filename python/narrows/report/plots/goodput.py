"""What groups of TCP connections deliver over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows.records.plotted import Counter, Declaration, Extreme, Series
from narrows.report.drawing import CYCLE
from narrows.report.plots.over_time import TIME, events, from_zero
from narrows.results import Run
from narrows.results.goodput import delivered, goodput_series

_MOST = 200
"""The most intervals of a curve; with more, the segments of slow connections look like noise."""

ROUND_TRIPS = 4
"""Repairing a loss takes a round trip or two; what was held back meanwhile is delivered at once."""

_LABEL = "goodput (Mbit/s)"


def goodput(run: Run) -> Declaration:
    """Goodput of each group of TCP connections; if there are many, only of the largest groups."""
    shown = goodput_groups(run)
    return Declaration(
        "goodput",
        "Goodput of TCP, by group",
        TIME,
        from_zero(_LABEL),
        tuple(_series(series_name(series, shown), series) for series in shown),
        events([run]),
    )


def goodputs(runs: Mapping[str, Run], series: tuple[str, str], name: str) -> Declaration:
    """Goodput of one group of TCP connections in several runs, drawn over each other.

    Args:
        runs: Runs by label.
        series: A group and a direction; each run has samples of them.
        name: Their name.
    """
    every = list(runs.values())
    return Declaration(
        "goodput",
        f"Goodput of {name}",
        TIME,
        from_zero(_LABEL),
        (_series(name, series),),
        events(every),
        height=3.0,
    )


def _series(name: str, series: tuple[str, str]) -> Series:
    """The goodput in intervals that last `ROUND_TRIPS` of the slowest connection or more."""
    group, direction = series
    least = Extreme("max", "flows", ("*", 1e-3 * ROUND_TRIPS, "srtt_ms"), {"group": group})
    return Series(
        name,
        "goodput",
        "t_s",
        ("*", 8e-6, "bytes_received"),
        {"group": group, "direction": direction},
        "before",
        change=Counter(least, _MOST),
        width=1.1,
    )


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
