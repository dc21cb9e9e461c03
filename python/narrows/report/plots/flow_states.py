"""Windows, round trips and rates of connections over time, a line for each connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from narrows.records.numbers import Floats
from narrows.records.plotted import Declaration, Extreme, Means, Series, Where
from narrows.report.drawing import CYCLE
from narrows.report.evaluate import Data, points_of
from narrows.report.plots.over_time import TIME, events, from_zero
from narrows.results import Run
from narrows.results.flow_states import sampled_connections, sampled_groups

MOST_LINES = 50
"""The most connections of a group that have a thin line: those with the most samples."""

_MOST_MEANS = 200
"""The most means of a line."""

_ROUND_TRIPS = 4
"""Repairing a loss takes a round trip or two; what was held back meanwhile is delivered at once."""


@dataclass(frozen=True)
class Quantity:
    """What is drawn over time."""

    name: str
    """The start of the plot's file name."""
    column: str
    scale: float
    """What the column is multiplied with."""
    words: str
    """What it is, in a sentence."""
    unit: str
    title: str
    label: str
    caption: str
    averaged: bool = False
    """Whether each line shows means over several round trips, as steps."""


QUANTITIES = (
    Quantity(
        name="flow-windows",
        column="cwnd_bytes",
        scale=1e-3,
        words="congestion window",
        unit="kB",
        title="Congestion window",
        label="congestion window (kB)",
        caption="How much a sender may have in flight without an acknowledgement. It grows until "
        "a loss or a mark reduces it; what does not fit into the path waits in a queue.",
    ),
    Quantity(
        name="flow-round-trips",
        column="srtt_ms",
        scale=1.0,
        words="smoothed round-trip time",
        unit="ms",
        title="Round-trip time",
        label="smoothed round trip (ms)",
        caption="What senders measure, smoothed over the last acknowledgements. What is above the "
        "lowest value is mostly time in queues.",
    ),
    Quantity(
        name="flow-goodput",
        column="goodput_bit_per_s",
        scale=1e-6,
        words="goodput",
        unit="Mbit/s",
        title="Goodput",
        label="goodput (Mbit/s)",
        caption="Payload that arrived in order, averaged over at least four round trips. Lines "
        "that meet are a fair share.",
        averaged=True,
    ),
    Quantity(
        name="flow-pacing",
        column="pacing_bit_per_s",
        scale=1e-6,
        words="pacing rate",
        unit="Mbit/s",
        title="Pacing rate",
        label="pacing rate (Mbit/s)",
        caption="The rate to which a sender that paces spreads its packets; the window may hold it "
        "further back. For a sender that does not pace, it is what Linux computes all the same: "
        "1.2 windows in a round trip, or 2 early in slow start.",
    ),
)
"""What has a plot, in this order."""


class Line(NamedTuple):
    """A line of a plot."""

    label: str
    color: str
    where: Where
    """The samples of a connection, or of all connections of a group."""
    mean: bool = False
    """Whether it is the mean over a group's open connections."""
    behind: Sequence[Where] = ()
    """The samples of connections of which it is the mean, at most `MOST_LINES`."""


def flow_lines(run: Run) -> list[Line]:
    """The lines that plots of `flow_states` show, by group.

    Up to six connections have a line each. If there are more, each group has one, which is the
    mean, and only the groups with the most samples are shown.
    """
    samples = run.table("flow_states")
    groups = sampled_groups(samples)
    largest = sorted(groups, key=lambda group: -groups[group].height)[: len(CYCLE)]
    parts = {group: sampled_connections(rows) for group, rows in groups.items() if group in largest}
    if sum(map(len, parts.values())) > len(CYCLE):
        return [
            _of_group(group, part, color)
            for (group, part), color in zip(parts.items(), CYCLE, strict=False)
        ]
    named: list[tuple[str, Where]] = [
        (_name(group, number, rows, len(part)), {"group": group, "connection": number})
        for group, part in parts.items()
        for number, rows in part.items()
    ]
    return [Line(name, color, where) for (name, where), color in zip(named, CYCLE, strict=False)]


def _name(group: str, number: int, rows: pl.DataFrame, connections: int) -> str:
    """A connection's name: the group's, if it has no other connection."""
    if connections == 1:
        return group
    return rows.get_column("name")[0] or f"{group}, connection {number}"


def _of_group(group: str, parts: dict[int, pl.DataFrame], color: str) -> Line:
    """The mean over a group's open connections at each time, with the connections behind it."""
    if len(parts) == 1:
        return Line(group, color, {"group": group})
    longest = sorted(parts, key=lambda number: -parts[number].height)[:MOST_LINES]
    behind: list[Where] = [{"group": group, "connection": number} for number in longest]
    name = f"{group}, mean of {len(parts)} connections"
    return Line(name, color, {"group": group}, mean=True, behind=behind)


def flow_states(run: Run, quantity: Quantity) -> Declaration:
    """One of the `QUANTITIES` over time."""
    lines = flow_lines(run)
    shown: list[Series] = []
    for line in lines:
        shown.append(_series(line.label, line.color, line.where, quantity, mean=line.mean))
        shown += [_series("", line.color, where, quantity, seed=True) for where in line.behind]
    grouped = any(line.behind for line in lines)
    return Declaration(
        quantity.name,
        f"{quantity.title}, by {'group' if grouped else 'connection'}",
        TIME,
        from_zero(quantity.label),
        tuple(shown),
        events([run]),
    )


def _series(
    label: str,
    color: str,
    where: Where,
    quantity: Quantity,
    *,
    mean: bool = False,
    seed: bool = False,
) -> Series:
    y = ("*", quantity.scale, ("mean", quantity.column) if mean else quantity.column)
    trip = Extreme("max", "flow_states", ("*", 1e-3 * _ROUND_TRIPS, "srtt_ms"), where)
    return Series(
        label,
        "flow_states",
        "t_s",
        y,
        where,
        "before" if quantity.averaged else "line",
        color,
        by=mean,
        change=Means(trip, _MOST_MEANS) if quantity.averaged else None,
        omit="missing",
        width=0.6 if seed else 1.6 if mean else 1.1,
        seed=seed,
    )


def mean_of_line(run: Run, line: Line, quantity: Quantity) -> float | None:
    """The mean over time of what a line shows; None if it has no value."""
    (pair,) = points_of(
        _series(line.label, line.color, line.where, quantity, mean=line.mean),
        Data(run.tables, run.end_s),
    ).values()
    known: Floats = pair[1][~np.isnan(pair[1])]
    return float(known.mean()) if len(known) else None
