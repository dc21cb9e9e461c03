"""Windows, round trips and rates of connections over time, a line for each connection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.plots.over_time import over_time
from narrows.report.style import CYCLE, Floats
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
    rows: pl.DataFrame
    """Samples of a connection, or means over a group's open connections."""
    behind: Sequence[pl.DataFrame] = ()
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
        ticks = samples.select("t_s").unique(maintain_order=True)
        return [
            _of_group(group, list(part.values()), ticks, color)
            for (group, part), color in zip(parts.items(), CYCLE, strict=False)
        ]
    named = [
        (_name(group, number, rows, len(part)), rows)
        for group, part in parts.items()
        for number, rows in part.items()
    ]
    return [Line(name, color, rows) for (name, rows), color in zip(named, CYCLE, strict=False)]


def _name(group: str, number: int, rows: pl.DataFrame, connections: int) -> str:
    """A connection's name: the group's, if it has no other connection."""
    if connections == 1:
        return group
    return rows.get_column("name")[0] or f"{group}, connection {number}"


def _of_group(group: str, parts: list[pl.DataFrame], ticks: pl.DataFrame, color: str) -> Line:
    """The mean over a group's open connections at each time; null while none is open."""
    if len(parts) == 1:
        return Line(group, color, parts[0])
    columns = {"srtt_ms", *(quantity.column for quantity in QUANTITIES)}
    means = pl.concat(parts).group_by("t_s").agg(pl.col(column).mean() for column in columns)
    rows = ticks.join(means, on="t_s", how="left", maintain_order="left")
    longest = sorted(parts, key=lambda part: -part.height)[:MOST_LINES]
    return Line(f"{group}, mean of {len(parts)} connections", color, rows, longest)


@style.styled
def flow_states(run: Run, quantity: Quantity) -> Figure:
    """One of the `QUANTITIES` over time."""
    figure, axes = style.new_figure(height=3.4)
    drawstyle: Any = "steps-pre" if quantity.averaged else "default"
    top, count = 0.0, 0
    lines = flow_lines(run)
    grouped = any(line.behind for line in lines)
    for line in lines:
        times, values = curve(line.rows, quantity)
        if np.isnan(values).all():
            continue
        count += 1
        axes.plot(
            *style.thin(times, values),
            color=line.color,
            linewidth=1.6 if line.behind else 1.1,
            drawstyle=drawstyle,
            label=line.label,
        )
        top = max(top, float(np.nanmax(values)))
        for rows in line.behind:
            thin = curve(rows, quantity)
            style.faint(axes, *style.thin(*thin), line.color, drawstyle)
            top = max(top, float(np.nanmax(thin[1], initial=0.0)))
    title = f"{quantity.title}, by {'group' if grouped else 'connection'}"
    over_time(axes, [run], top, title, quantity.label)
    if count > 1 or grouped:
        style.below(figure, 3)
    return figure


def curve(rows: pl.DataFrame, quantity: Quantity) -> tuple[Floats, Floats]:
    """The times and values of a line; NaN where it has none."""
    times = rows.get_column("t_s").to_numpy()
    values = rows.get_column(quantity.column).cast(pl.Float64).fill_null(math.nan).to_numpy()
    values = quantity.scale * values
    if not quantity.averaged or len(times) < 2:
        return times, values
    apart = float(times[1] - times[0])
    if apart <= 0:
        return times, values
    round_trip_s = 1e-3 * float(rows.get_column("srtt_ms").fill_null(0.0).to_numpy().max())
    together = max(
        math.ceil(len(times) / _MOST_MEANS), math.ceil(_ROUND_TRIPS * round_trip_s / apart)
    )
    together = min(len(times), max(1, together))
    ends = np.arange(together - 1, len(times), together)
    parts = values[: len(ends) * together].reshape(len(ends), together)
    # Where no connection is open, there is no mean.
    counts = np.sum(~np.isnan(parts), axis=1)
    means = np.full(len(ends), np.nan)
    np.divide(np.nansum(parts, axis=1), counts, out=means, where=counts > 0)
    # A step reaches back to the end of the interval before.
    start = times[0] - apart
    return np.concatenate([[start], times[ends]]), np.concatenate([means[:1], means])
