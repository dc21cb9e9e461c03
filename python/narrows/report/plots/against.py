"""A plot against a key of the scenario: means over seeds with their intervals."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import offset_copy

from narrows.report import style
from narrows.report.style import CYCLE, MUTED

DECADES = 30.0
"""The largest value divided by the smallest, from which on `auto` chooses a logarithmic axis."""

_MARKERS = ("o", "s", "^", "D", "v")
_MOST_COLUMNS = 6
"""The most columns of the legend, if they fit."""
_MARGIN = 0.08
"""The share of the axis that is free below the smallest value and above the largest."""
_CLOSEST = 0.055
"""The share of the axis between two ticks, at least; closer labels would overlap."""

_DOT = 3.4
"""Points from dot to dot, so that each is seen."""
_COLUMNS = 12
"""Columns of dots beside an interval; further dots at the same height share the last one."""
_NOT_AXES = 130.0
"""Points of the plot's height that the axes do not have, at most."""
_NARROWEST = 400.0
"""Points that the axes are wide, at least."""

_ROOM = 80
"""Characters of names below the axis; more are written at an angle."""
_LEGEND_LINE = 72
"""The most characters of a line in the legend."""
_LINE, _LINES = 24, 3
"""The most characters of a line of a name, and the most lines."""

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
class Series:
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


@style.styled
def against(
    series: Sequence[Series],
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
) -> Figure:
    """Means with their intervals, a line a series, and a faint dot for each run behind them.

    ``unit`` is that of the vertical axis. ``legend`` heads the legend: what tells the series apart.
    ``y_range`` is the scale of a metric that has one, such as scores from 1 to 4.5; cut, it would
    exaggerate differences.

    On a logarithmic vertical axis, an interval that reaches zero ends at the lower edge.

    An axis is logarithmic where all of it is above zero and its values span decades; the vertical
    one starts at zero unless the values are close together, and then says where it begins.
    """
    names = [one.label for one in series if one.label]
    figure, axes = style.new_figure(height=3.9 + 0.2 * math.ceil(len(names) / 3))
    ends = [
        end
        for one in series
        for point in one.points
        for end in (point.mean, point.low, point.high, *point.values)
        if end is not None
    ]
    floor = -math.inf
    if y_scale == "log":
        ends = [end for end in ends if end > 0.0]
        floor = _around(min(ends), max(ends), log=True)[0]
    for number, one in enumerate(series):
        _draw(axes, one, number, len(series), floor, named=ticks.names is not None)
    _horizontal(axes, ticks, x_scale)
    if y_range is not None and y_scale == "auto":
        axes.set_ylim(min(y_range[0], *ends), max(y_range[1], *ends))
    elif _is_log(ends, y_scale):
        axes.set_yscale("log")
        axes.set_ylim(*_around(min(ends), max(ends), log=True))
        style.plain_ticks(axes.yaxis, min(ends), max(ends))
    elif min(ends) >= 0.0 and max(ends) - min(ends) >= max(ends) / 3.0:
        style.from_zero(axes, max(ends))
    else:
        low, high = _around(min(ends), max(ends))
        if low > 0.0:
            low = _rounded_down(low, high - low)
            _mark_start(axes, low, unit)
        axes.set_ylim(low, high)
    _seeds(figure, axes, series, named=ticks.names is not None)
    below_title = style.wrapped(subtitle, 440.0, 9.0)
    lines = below_title.count("\n") + 1
    style.name_axes(axes, title, ticks.label, y_label, pad=10.0 + 12.0 * lines)
    axes.annotate(
        below_title,
        (0.0, 1.0),
        xycoords="axes fraction",
        xytext=(0, 7),
        textcoords="offset points",
        fontsize=9,
        color=MUTED,
    )
    if names:
        style.below(figure, _MOST_COLUMNS, title=legend)
    return figure


def _draw(axes: Axes, one: Series, number: int, count: int, floor: float, *, named: bool) -> None:
    points = sorted(one.points, key=lambda point: point.at)
    color = CYCLE[number % len(CYCLE)]
    places = [point.at + _aside(number, count, named=named) for point in points]
    below = [
        point.mean - (point.mean if point.low is None else max(point.low, floor))
        for point in points
    ]
    above = [(point.mean if point.high is None else point.high) - point.mean for point in points]
    axes.errorbar(
        places,
        [point.mean for point in points],
        yerr=[below, above],
        color=color,
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=5,
        linewidth=0.0 if named else 1.4,
        elinewidth=1.3,
        capsize=3.5,
        label=textwrap.fill(one.label, _LEGEND_LINE, break_on_hyphens=False) or None,
    )


def _aside(number: int, count: int, *, named: bool) -> float:
    """How far a series is from the place: where places are names, nothing lies between them."""
    return (number - (count - 1) / 2) * min(0.12, 0.6 / count) if named else 0.0


def _seeds(figure: Figure, axes: Axes, series: Sequence[Series], *, named: bool) -> None:
    """A dot a seed, beside the interval, which would hide it; dots that would coincide spread.

    The vertical axis has its ends already: they say which dots are how close.
    """
    dots = [
        (point.at + _aside(number, len(series), named=named), value, number, index)
        for number, one in enumerate(series)
        for index, point in enumerate(one.points)
        if len(point.values) > 1
        for value in sorted(point.values)
    ]
    if not dots:
        return
    height = 72.0 * figure.get_figheight() - _NOT_AXES
    scale = axes.transScale.transform([(1.0, y) for y in (*axes.get_ylim(), *(d[1] for d in dots))])
    low, high, *shown = scale[:, 1]
    taken: dict[float, list[list[float]]] = {}
    columns: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    for (place, value, number, index), y in zip(dots, shown, strict=True):
        at = height * float((y - low) / (high - low))
        of_place = taken.setdefault(place, [[] for _ in range(_COLUMNS)])
        free = (n for n, ys in enumerate(of_place) if all(abs(at - y) >= _DOT for y in ys))
        column = next(free, _COLUMNS - 1)
        of_place[column].append(at)
        columns.setdefault((number, index, column), []).append((place, value))
    for (number, _, column), together in columns.items():
        # In points, so that it holds for any axis.
        beside = offset_copy(axes.transData, figure, x=7.0 + _DOT * column, units="points")
        axes.plot(
            [place for place, _ in together],
            [value for _, value in together],
            color=CYCLE[number % len(CYCLE)],
            marker=".",
            markersize=6.0,
            markeredgewidth=0.0,
            linewidth=0.0,
            alpha=0.6,
            transform=beside,
            label="_seeds",
        )
    widest = 7.0 + _DOT * (1 + max(column for _, _, column in columns))
    if named:
        # The last place's dots need their room on the right.
        low, high = axes.get_xlim()
        last = max(place for place, *_ in dots)
        axes.set_xlim(low, max(high, last + (last - low) * widest / (_NARROWEST - widest)))
    else:
        # A margin on each side, as a share of what lies between them.
        axes.margins(x=max(0.05, widest / (_NARROWEST - 2.0 * widest)))


def _horizontal(axes: Axes, ticks: Ticks, scale: Scale) -> None:
    if ticks.names is not None:
        names = [_in_lines(name) for name in ticks.names]
        axes.set_xticks(list(ticks.places), names)
        longest = max(len(line) for name in names for line in name.split("\n"))
        if longest * len(names) > _ROOM:
            axes.tick_params(axis="x", labelrotation=20)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
        axes.set_xlim(min(ticks.places) - 0.5, max(ticks.places) + 0.5)
        axes.grid(visible=False, axis="x")
        return
    places = sorted(ticks.places)
    log = _is_log(places, scale)
    if log:
        axes.set_xscale("log")
    shown = [math.log(place) for place in places] if log else places
    length = shown[-1] - shown[0]
    gaps = [b - a for a, b in pairwise(shown)]
    if length > 0.0 and len(places) <= 12 and min(gaps) >= _CLOSEST * length:
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    elif log:
        style.plain_ticks(axes.xaxis, places[0], places[-1])


def _in_lines(name: str) -> str:
    """A name in lines; what is too long for them ends in dots, or no room would be left to draw."""
    return "\n".join(
        textwrap.wrap(name, _LINE, max_lines=_LINES, placeholder=" ...", break_on_hyphens=False)
    )


def _around(low: float, high: float, *, log: bool = False) -> tuple[float, float]:
    """An axis that holds all values with some room; Matplotlib's own leaves out the seeds' dots."""
    if log and low > 0.0:
        factor = max((high / low) ** _MARGIN, 1.05)
        return low / factor, high * factor
    room = _MARGIN * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _rounded_down(low: float, length: float) -> float:
    """Where an axis of this length begins, as a number that is short to say."""
    step = 10.0 ** math.floor(math.log10(length) - 1.0)
    return round(math.floor(low / step) * step, 12)


def _mark_start(axes: Axes, low: float, unit: str) -> None:
    """Says where the vertical axis begins: not at zero, so that heights are not shares."""
    axes.annotate(
        f"axis begins at {low:g} {unit}".rstrip(),
        (0.0, 0.0),
        xycoords="axes fraction",
        xytext=(5, 5),
        textcoords="offset points",
        fontsize=8,
        color=MUTED,
        bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
    )


def _is_log(values: Sequence[float], scale: Scale) -> bool:
    if scale != "auto":
        return scale == "log"
    return min(values) > 0.0 and max(values) / min(values) >= DECADES
