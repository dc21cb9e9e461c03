"""A plot against a key of the scenario: means over seeds with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from narrows.records.plotted import Axis
from narrows.report.drawing import CYCLE, Curve, Drawing

DECADES = 30.0
"""The largest value divided by the smallest, from which on `auto` chooses a logarithmic axis."""

_MARKERS = ("o", "s", "^", "D", "v")
_MARGIN = 0.08
"""The share of the axis that is free below the smallest value and above the largest."""
_CLOSEST = 0.055
"""The share of the axis between two ticks, at least; closer labels would overlap."""
_ROOM = 0.05
"""The share of the axis that is free at both sides of the places."""
_ROOM_OF_DOTS = 0.012
"""The same for each of the dots that may lie side by side at a place."""
_MOST_DOTS = 12
"""The most dots side by side."""

Scale = str
"""`auto`, `linear` or `log`."""


@dataclass(frozen=True)
class Mean:
    """A point."""

    at: float
    """Value of the key; a place, where the key has names for values."""
    mean: float
    low: float | None
    """Lower end of the interval; None for a single run."""
    high: float | None
    values: Sequence[float] = ()
    """What the single runs gave."""


@dataclass(frozen=True)
class Line:
    """Points that belong together."""

    label: str
    """Empty where there is nothing to tell apart."""
    points: Sequence[Mean]


@dataclass(frozen=True)
class Ticks:
    """The key's axis."""

    label: str
    places: Sequence[float]
    """Where there are values."""
    names: Sequence[str] | None
    """What the places are called; None for numbers."""


def against(
    lines: Sequence[Line],
    ticks: Ticks,
    *,
    title: str,
    subtitle: str,
    y_label: str,
    unit: str = "",
    legend: str = "",
    y_range: tuple[float, float] | None = None,
    x_scale: Scale = "auto",
    y_scale: Scale = "auto",
) -> Drawing:
    """Means with their intervals, a line a series, and a faint dot for each run behind them.

    ``unit`` is that of the vertical axis. ``legend`` heads the legend: what tells the lines apart.
    ``y_range`` is the scale of a metric that has one, such as scores from 1 to 4.5; cut, it would
    exaggerate differences.

    On a logarithmic vertical axis, an interval that reaches zero ends at the lower edge.

    An axis is logarithmic where all of it is above zero and its values span decades; the vertical
    one starts at zero unless the values are close together, and then says where it begins.
    """
    ends = [
        end
        for line in lines
        for point in line.points
        for end in (point.mean, point.low, point.high, *point.values)
        if end is not None
    ]
    corner = ""
    if y_scale == "log":
        ends = [end for end in ends if end > 0.0]
    least, most = min(ends), max(ends)
    y = Axis(y_label)
    floor = -math.inf
    if y_range is not None and y_scale == "auto":
        y = Axis(y_label, ends=(min(y_range[0], least), max(y_range[1], most)))
    elif _is_log(ends, y_scale):
        y = Axis(y_label, ends=_around(least, most, log=True), log=True)
        floor = y.ends[0] or floor
    elif least >= 0.0 and most - least >= most / 3.0:
        y = Axis(y_label, ends=(0.0, 1.12 * most or 1.0))
    else:
        low, high = _around(least, most)
        if low > 0.0:
            low = _rounded_down(low, high - low)
            # Not at zero, so that heights are not shares.
            corner = f"axis begins at {low:g} {unit}".rstrip()
        y = Axis(y_label, ends=(low, high))
    named = ticks.names is not None
    names = sum(1 for line in lines if line.label)
    return Drawing(
        title,
        _horizontal(ticks, x_scale, _dots(lines, named)),
        y,
        curves=[_curve(line, at, len(lines), floor, named) for at, line in enumerate(lines)],
        subtitle=subtitle,
        legend=legend,
        corner=corner,
        height=3.9 + 0.2 * math.ceil(names / 3),
    )


def _curve(line: Line, number: int, count: int, floor: float, named: bool) -> Curve:
    points = sorted(line.points, key=lambda point: point.at)
    # Where places are names, nothing lies between them.
    aside = (number - (count - 1) / 2) * min(0.12, 0.6 / count) if named else 0.0
    low = [math.nan if point.low is None else max(point.low, floor) for point in points]
    high = [math.nan if point.high is None else point.high for point in points]
    return Curve(
        line.label,
        CYCLE[number % len(CYCLE)],
        np.asarray([point.at + aside for point in points]),
        np.asarray([point.mean for point in points]),
        width=0.0 if named else 1.4,
        low=np.asarray(low),
        high=np.asarray(high),
        marker=_MARKERS[number % len(_MARKERS)],
        values=[sorted(point.values) if len(point.values) > 1 else [] for point in points],
    )


def _dots(lines: Sequence[Line], named: bool) -> int:
    """The most dots that may lie side by side at a place."""
    counts: dict[object, int] = {}
    for number, line in enumerate(lines):
        for point in line.points:
            place = (point.at, number if named else 0)
            counts[place] = counts.get(place, 0) + len(point.values) * (len(point.values) > 1)
    return min(_MOST_DOTS, max(counts.values(), default=0))


def _horizontal(ticks: Ticks, scale: Scale, seeds: int) -> Axis:
    places = sorted(ticks.places)
    room = max(_ROOM, _ROOM_OF_DOTS * (2 + seeds) if seeds else 0.0)
    if ticks.names is not None:
        shown = tuple(zip(ticks.places, ticks.names, strict=True))
        length = places[-1] - places[0] + 1.0
        return Axis(
            ticks.label, ends=(places[0] - 0.5, places[-1] + 0.5 + room * length), ticks=shown
        )
    log = _is_log(places, scale)
    drawn = [math.log(place) for place in places] if log else places
    length = drawn[-1] - drawn[0]
    margin = room * length or (0.1 if log else 0.5)
    ends = drawn[0] - margin, drawn[-1] + margin
    if log:
        ends = math.exp(ends[0]), math.exp(ends[1])
    fit = len(places) <= 12 and all(b - a >= _CLOSEST * length for a, b in pairwise(drawn))
    at = tuple((place, f"{place:g}") for place in places) if fit and length > 0.0 else ()
    return Axis(ticks.label, ends=ends, log=log, ticks=at)


def _around(low: float, high: float, *, log: bool = False) -> tuple[float, float]:
    """An axis that holds all values with some room."""
    if log and low > 0.0:
        factor = max((high / low) ** _MARGIN, 1.05)
        return low / factor, high * factor
    room = _MARGIN * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _rounded_down(low: float, length: float) -> float:
    """Where an axis of this length begins, as a number that is short to say."""
    step = 10.0 ** math.floor(math.log10(length) - 1.0)
    return round(math.floor(low / step) * step, 12)


def _is_log(values: Sequence[float], scale: Scale) -> bool:
    if scale != "auto":
        return scale == "log"
    return min(values) > 0.0 and max(values) / min(values) >= DECADES
