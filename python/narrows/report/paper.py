"""Draws drawings with Matplotlib, for paper."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Ruler
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import offset_copy

from narrows.records.plotted import Axis
from narrows.report import marks, style
from narrows.report.drawing import Bar, Curve, Drawing, Heat, few, thin
from narrows.report.units import Milliseconds

COLORS: Mapping[str, str] = {
    "ink": style.INK,
    "muted": style.MUTED,
    "grid": style.GRID,
    "blue": style.BLUE,
    "vermilion": style.VERMILION,
    "green": style.GREEN,
    "purple": style.PURPLE,
    "orange": style.ORANGE,
    "sky": style.SKY,
}

_MOST_COLUMNS = 6
"""The most columns of the legend, if they fit."""
_DOT = 3.4
"""Points from dot to dot, so that each is seen."""
_COLUMNS = 12
"""Columns of dots beside an interval; further dots at the same height share the last one."""
_NOT_AXES = 130.0
"""Points of the plot's height that the axes do not have, at most."""
_ROOM = 80
"""Characters of names below the axis; more are written at an angle."""
_LEGEND_LINE = 72
"""The most characters of a line in the legend."""
_LINE, _LINES = 24, 3
"""The most characters of a line of a name, and the most lines."""
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
"""Digits of labels on a logarithmic axis, the most first."""
_MOST_NAMES = 24
"""The most bars over time that have room for their names."""


@style.styled
def figure_of(drawing: Drawing) -> Figure:
    """A drawing as Matplotlib draws it."""
    figure, axes = style.new_figure(height=drawing.height)
    if drawing.heat is not None:
        _heat(axes, drawing.heat)
    elif drawing.bars:
        _bars(axes, drawing)
    else:
        _curves(figure, axes, drawing)
    pad = None
    if drawing.subtitle:
        text = style.wrapped(drawing.subtitle, 440.0, 9.0)
        pad = 10.0 + 12.0 * (text.count("\n") + 1)
        axes.annotate(
            text,
            (0.0, 1.0),
            xycoords="axes fraction",
            xytext=(0, 7),
            textcoords="offset points",
            fontsize=9,
            color=style.MUTED,
        )
    style.name_axes(axes, drawing.title, drawing.x.label, drawing.y.label, pad=pad)
    if axes.get_legend_handles_labels()[1]:
        style.below(figure, _MOST_COLUMNS if drawing.legend else 4, title=drawing.legend)
    return figure


def _curves(figure: Figure, axes: Axes, drawing: Drawing) -> None:
    for curve in drawing.curves:
        _curve(axes, curve)
    for axis, ruler, limits in (
        (drawing.x, axes.xaxis, axes.set_xlim),
        (drawing.y, axes.yaxis, axes.set_ylim),
    ):
        _scale(axis, ruler, axes)
        limits(*_ends(axis))
    for level in drawing.levels:
        color = COLORS.get(level.color, level.color)
        if level.axis == "y":
            marks.level(axes, level.at, level.name, color)
        else:
            marks.moment(axes, level.at, level.name, upright=level.upright)
    _dots(figure, axes, drawing)
    if drawing.corner:
        axes.annotate(
            drawing.corner,
            (0.0, 0.0),
            xycoords="axes fraction",
            xytext=(5, 5),
            textcoords="offset points",
            fontsize=8,
            color=style.MUTED,
            bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )


_STEPS: Mapping[str, Any] = {"before": "steps-pre", "after": "steps-post", "cdf": "steps-post"}


def _curve(axes: Axes, curve: Curve) -> None:
    color = COLORS.get(curve.color, curve.color)
    x, y = (few if curve.shape == "cdf" else thin)(curve.x, curve.y, 3_000)
    steps = _STEPS.get(curve.shape, "default")
    label = textwrap.fill(curve.label, _LEGEND_LINE, break_on_hyphens=False) or None
    if curve.margin and curve.shape == "after":
        marks.course(axes, list(zip(x, y, strict=True))[:-1], float(x[-1]), curve.margin, color)
    elif curve.seed:
        style.faint(axes, x, y, color, steps)
    elif curve.low is not None and curve.high is not None:
        below, above = curve.y - curve.low, curve.high - curve.y
        axes.errorbar(
            curve.x,
            curve.y,
            yerr=np.nan_to_num([np.maximum(below, 0.0), np.maximum(above, 0.0)]),
            color=color,
            marker=curve.marker,
            markersize=5,
            linewidth=curve.width,
            elinewidth=1.3,
            capsize=3.5,
            label=label,
        )
    elif curve.shape == "points":
        alpha = 0.7 if len(x) < 400 else 0.45
        looks: dict[str, Any] = {"color": color, "alpha": alpha, "linewidths": 0}
        axes.scatter(
            curve.x, curve.y, s=curve.width**2, label=label, rasterized=len(x) > 3_000, **looks
        )
    else:
        if curve.shape == "area":
            axes.fill_between(x, curve.base, y, color=color, alpha=0.18, linewidth=0)
        axes.plot(
            x,
            y,
            color=color,
            linewidth=curve.width,
            linestyle=style.DASHES if curve.dash else "-",
            drawstyle=steps,
            label=label,
        )
        if curve.margin:
            marks.in_margin(axes, float(y[-1]), curve.margin, color)


def _scale(axis: Axis, ruler: Ruler, axes: Axes) -> None:
    name = "x" if ruler is axes.xaxis else "y"
    low, high = _ends(axis)
    if axis.linear_to:
        axes.set_xscale("symlog", linthresh=axis.linear_to, linscale=1.0)
    elif axis.log:
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    if axis.ticks:
        _named_ticks(axis, ruler, axes)
    elif axis.mixed:
        ruler.set_major_formatter(_time)
        if axis.log:
            ruler.set_major_locator(FixedLocator(_moments(low, high)))
            ruler.set_minor_formatter(NullFormatter())
            axes.grid(visible=True, which="minor", axis="x", linewidth=0.4)
        else:
            ruler.set_major_locator(MaxNLocator(6))
    elif axis.log:
        style.plain_ticks(ruler, low, high)


def _ends(axis: Axis) -> tuple[float, float]:
    low, high = axis.ends
    assert isinstance(low, float | int) and isinstance(high, float | int), "the drawing is complete"
    return low, high


def _named_ticks(axis: Axis, ruler: Ruler, axes: Axes) -> None:
    names = [_in_lines(name) for _, name in axis.ticks]
    ruler.set_major_locator(FixedLocator([at for at, _ in axis.ticks]))
    ruler.set_minor_locator(NullLocator())
    ruler.set_ticklabels(names)
    numbers = all(name == f"{at:g}" for at, name in axis.ticks)
    if ruler is axes.xaxis and not numbers:
        longest = max(len(line) for name in names for line in name.split("\n"))
        if longest * len(names) > _ROOM:
            axes.tick_params(axis="x", labelrotation=20)
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
        axes.grid(visible=False, axis="x")


def _in_lines(name: str) -> str:
    """A name in lines; what is too long for them ends in dots, or no room would be left to draw."""
    return "\n".join(
        textwrap.wrap(name, _LINE, max_lines=_LINES, placeholder=" ...", break_on_hyphens=False)
    )


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


def _dots(figure: Figure, axes: Axes, drawing: Drawing) -> None:
    """A dot for each run, beside the interval, which would hide it, and beside its equals.

    The vertical axis has its ends already: they say which dots are how close.
    """
    dots = [
        (float(place), value, number, index)
        for number, curve in enumerate(drawing.curves)
        for index, (place, values) in enumerate(zip(curve.x, curve.values, strict=False))
        for value in values
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
            color=COLORS[drawing.curves[number].color],
            marker=".",
            markersize=6.0,
            markeredgewidth=0.0,
            linewidth=0.0,
            alpha=0.6,
            transform=beside,
            label="_seeds",
        )


def _bars(axes: Axes, drawing: Drawing) -> None:
    spans = any(part.thin for bar in drawing.bars for part in bar.parts)
    labelled: set[str] = set()
    for at, bar in enumerate(drawing.bars):
        for part in bar.parts:
            label = part.label if part.label not in labelled else ""
            labelled.add(part.label)
            axes.barh(
                at,
                part.end - part.begin,
                0.08 if part.thin else 0.62,
                left=part.begin,
                color=COLORS.get(part.color, part.color),
                alpha=0.5 if part.faint else 1.0,
                label=label or None,
            )
        _beside(axes, at, bar)
    if drawing.interval:
        axes.errorbar([], [], xerr=[], color=style.INK, capsize=4, label=drawing.interval)
    forest = any(bar.at is not None for bar in drawing.bars)
    names = [bar.name for bar in drawing.bars]
    if spans and len(names) > _MOST_NAMES:
        axes.set_yticks([])
    else:
        places = axes.set_yticks(range(len(names)), names)
        for tick, bar in zip(places, drawing.bars, strict=True):
            tick.label1.set_fontsize(9)
            tick.label1.set_fontweight("bold" if bar.head else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    low, high = _ends(drawing.x)
    _scale(drawing.x, axes.xaxis, axes)
    if forest:
        axes.axvline(0.0, color=style.INK, linewidth=1.0)
        if drawing.x.linear_to:
            axes.xaxis.set_major_locator(FixedLocator(_symmetric(drawing.x.linear_to, low, high)))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+g}" if x else "0"))
        axes.set_xlim(low, high)
    elif spans:
        axes.set_xlim(low, high)
    else:
        # Room for the text beside the longest bar.
        ticks = MaxNLocator(5).tick_values(low, high)
        axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
        axes.set_xlim(low, low + 1.25 * (high - low))


def _beside(axes: Axes, at: int, bar: Bar) -> None:
    color = COLORS.get(bar.color, bar.color)
    if bar.interval is not None:
        low, high = bar.interval
        if bar.at is not None:
            axes.plot([low, high], [at, at], color=color, linewidth=1.8)
            axes.plot([bar.at], [at], marker="o", markersize=4.5, color=color)
        else:
            middle = max((part.end for part in bar.parts), default=low)
            ends = [[max(0.0, middle - low)], [max(0.0, high - middle)]]
            axes.errorbar(middle, at, xerr=ends, color=color, capsize=4, linewidth=1.4)
    right = max([0.0, *(part.end for part in bar.parts), *(bar.interval or ())])
    if bar.text:
        axes.annotate(
            bar.text,
            (1.0 if bar.aside else right, at),
            xycoords=("axes fraction" if bar.aside else "data", "data"),
            xytext=(5 if bar.aside else 6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9 if bar.aside else 9.5,
            color=style.INK,
            annotation_clip=False,
        )


def _symmetric(to: float, low: float, high: float) -> list[float]:
    """Ticks of an axis that is logarithmic beyond `to` on both sides of zero."""
    widest = max(-low, high)
    ticks = [-to, -to / 2.0, 0.0, to / 2.0, to]
    top = to
    while top < widest:
        top *= 10.0
        ticks = [-top, *ticks, top]
    return [-3.0 * to, *ticks, 3.0 * to] if widest < 10.0 * to else ticks


def _heat(axes: Axes, heat: Heat) -> None:
    values = np.asarray(
        [[math.nan if each is None else each for each in row] for row in heat.values]
    )
    axes.imshow(values, cmap="Blues", aspect="auto", alpha=0.8)
    axes.set_xticks(range(len(heat.columns)), [_in_lines(name) for name in heat.columns])
    axes.set_yticks(range(len(heat.rows)), [_in_lines(name) for name in heat.rows])
    axes.grid(visible=False)
    for row, texts in enumerate(heat.texts):
        for column, text in enumerate(texts):
            axes.text(column, row, text, ha="center", va="center", fontsize=8.5)
