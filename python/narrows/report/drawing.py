"""Drawings: plots as plain data, with all numbers in them.

`evaluate` makes drawings of declarations. A page carries them as JSON, which draw.js draws, and
`paper` draws them with Matplotlib. docs/plots.md explains the format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from narrows.records.numbers import Floats
from narrows.records.plotted import Axis, Color, Shape

MOST_POINTS = 3_000
"""The most points of a curve on a page: more than a screen has columns."""

DIGITS = 5
"""Significant digits of a value: more than a plot can show."""
DIGITS_OF_X = 8
"""The same for horizontal positions, which need more digits for zooming in."""

CYCLE: tuple[Color, ...] = ("blue", "vermilion", "green", "purple", "orange", "sky")
"""Colours of runs that are compared, in order."""


@dataclass(frozen=True)
class Curve:
    """A curve, or points."""

    label: str
    """Empty for what the legend does not name."""
    color: Color
    x: Floats
    y: Floats
    shape: Shape = "line"
    width: float = 1.4
    """Of the line, or of points, in points."""
    dash: bool = False
    seed: bool = False
    """Whether it goes thinly behind the curve before it, and is switched off with that."""
    margin: str = ""
    """Its name in the margin beside its last point."""
    low: Floats | None = None
    """Lower ends of the points' intervals; NaN where there is none."""
    high: Floats | None = None
    marker: str = ""
    """The marker at its points, as Matplotlib names it; empty for none."""
    base: float = 0.0
    """Where an area begins."""
    values: Sequence[Sequence[float]] = ()
    """What single runs gave at each point: dots beside it."""


@dataclass(frozen=True)
class Level:
    """A level or an event, drawn as a line through the whole plot."""

    axis: str
    """`y` for a level, `x` for an event."""
    at: float
    name: str
    color: Color = "muted"
    dash: bool = False
    upright: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a bar."""

    begin: float
    end: float
    color: Color = "blue"
    label: str = ""
    """Its name in the legend; empty for none."""
    thin: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Bar:
    """A row of a plot with bars: a name, and what is beside it."""

    name: str
    parts: Sequence[Part] = ()
    interval: tuple[float, float] | None = None
    at: float | None = None
    """A dot on the interval."""
    color: Color = "ink"
    """Of the interval and the dot."""
    text: str = ""
    """To the right of the bar, or with `aside` in the right margin."""
    aside: bool = False
    head: bool = False
    """Whether it is only the heading of the rows below it."""


@dataclass(frozen=True)
class Heat:
    """A table of coloured cells."""

    columns: Sequence[str]
    rows: Sequence[str]
    """From top to bottom."""
    values: Sequence[Sequence[float | None]]
    """By row; None where nothing is known."""
    texts: Sequence[Sequence[str]]
    unit: str = ""


@dataclass(frozen=True)
class Drawing:
    """A plot: curves on a pair of axes, or bars, or a heat map."""

    title: str
    x: Axis
    y: Axis
    curves: Sequence[Curve] = ()
    levels: Sequence[Level] = ()
    bars: Sequence[Bar] = ()
    heat: Heat | None = None
    subtitle: str = ""
    legend: str = ""
    """The heading of the legend."""
    interval: str = ""
    """What the intervals of bars are, for the legend."""
    corner: str = ""
    """A note in the lower left corner of the axes."""
    height: float = 3.4
    """On paper, in inches."""

    def document(self, most: int = MOST_POINTS) -> dict[str, Any]:
        """The drawing as JSON values, with at most `most` points of each curve."""
        named = {
            each.name: _json(getattr(self, each.name))
            for each in fields(self)
            if each.name not in ("curves", "height") and getattr(self, each.name)
        }
        curves = [_curve(curve, most) for curve in self.curves]
        return {**named, **({"curves": curves} if curves else {})}

    def text(self, most: int = MOST_POINTS) -> str:
        """The drawing as JSON that is safe in a page's script element."""
        # Names are foreign text: no "</script>" may end the element.
        return json.dumps(self.document(most), separators=(",", ":")).replace("<", "\\u003c")


def thin(times: Floats, values: Floats, most: int = MOST_POINTS) -> tuple[Floats, Floats]:
    """Thins a series to at most ``most`` points; keeps the smallest and largest value of each bin.

    A plot cannot show more points than it has columns, but must not lose a peak.
    """
    if len(times) <= most:
        return times, values
    kept: list[int] = []
    for part in np.array_split(np.arange(len(times)), max(1, most // 2)):
        finite = part[~np.isnan(values[part])]
        if len(finite):
            ends = {int(finite[np.argmin(values[finite])]), int(finite[np.argmax(values[finite])])}
            kept.extend(sorted(ends))
        else:
            kept.append(int(part[0]))
    return times[kept], values[kept]


def few(x: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """A monotone curve with at most `most` points; keeps the first and the last."""
    if len(x) <= most:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, most).astype(int))
    return x[kept], y[kept]


def _curve(curve: Curve, most: int) -> dict[str, Any]:
    given = {each.name: each.default for each in fields(curve)}
    found = {
        name: getattr(curve, name)
        for name in given
        if name not in ("x", "y", "low", "high") and getattr(curve, name) != given[name]
    }
    x, y = curve.x, curve.y
    if curve.low is None:
        x, y = (few if curve.shape in ("cdf", "points") else thin)(x, y, most)
    for name, values, digits in (("x", x, DIGITS_OF_X), ("y", y, DIGITS)):
        found[name] = numbers(values, digits)
    for name in ("low", "high"):
        if (values := getattr(curve, name)) is not None:
            found[name] = numbers(values, DIGITS)
    return found


def numbers(values: Floats, digits: int) -> list[float | None]:
    """Values with so many significant digits, and None for NaN and infinity."""
    values = np.asarray(values, dtype=np.float64)
    known = np.isfinite(values)
    safe = np.where(known, values, 0.0)
    with np.errstate(divide="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(safe)))
    places = np.where(np.isfinite(places), np.clip(places, -300, 300), 0.0)
    # A power of ten above 1 is exact, so multiply or divide by one of those.
    up, down = 10.0 ** np.maximum(places, 0.0), 10.0 ** np.maximum(-places, 0.0)
    rounded = np.rint(safe * up / down) * down / up
    found: list[float | None] = rounded.tolist()
    for at in np.flatnonzero(~known).tolist():
        found[at] = None
    return found


def _json(value: Any) -> Any:
    if is_dataclass(value):
        return {
            each.name: _json(getattr(value, each.name))
            for each in fields(value)
            if getattr(value, each.name) != each.default
        }
    if isinstance(value, (list, tuple)):
        return [_json(each) for each in value]
    return value
