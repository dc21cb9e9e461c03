"""The curves of plots as data, for interactive plots on a page that zoom and show values.

The data come from the figure that Matplotlib draws, so the static and the interactive plot show the
same lines, marks (`marks`), and axes with their ends, scales and units. Bars and maps have no
interactive plot. The page's script (live.js) plots with uPlot. The page embeds uPlot once and so
stays a single file. Without scripts, the page shows the static plot.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from narrows.report.marks import Mark
from narrows.report.style import SEED, Floats, css_color
from narrows.report.units import Milliseconds, unit_of

DIGITS = 5
"""Significant digits of a value: more than a plot can show."""
DIGITS_OF_X = 8
"""The same for horizontal positions, which need more digits for zooming in."""


def curves(figure: Figure) -> Markup | None:
    """A plot's curves as JSON that is safe in a page's script element; None without curves.

    - `title`
    - `x`, `y`: of each axis the `label`, the `name` and the `unit` in it, the `ends`, whether it is
      logarithmic (`log`), and whether values of 1000 ms and more are shown in seconds (`mixed`)
    - `series`: of each curve the `label`, `color`, `x`, `y`, `step` (-1: a value holds until its x,
      1: from it on, 0: a line between points), `width`, and whether it is dashed (`dash`). The
      seeds of a curve follow it, with an empty label.
    - `marks`: levels (`axis` is y) and moments (x), each with its place (`at`), `name` and `color`
    """
    if len(figure.axes) != 1:
        return None
    axes = figure.axes[0]
    found = [_series(line) for line in axes.get_lines() if _is_curve(line)]
    if not any(each["label"] for each in found):
        return None
    document = {
        "title": axes.get_title(loc="left") or axes.get_title(),
        "x": _axis(axes.xaxis, axes.get_xlim()),
        "y": _axis(axes.yaxis, axes.get_ylim()),
        "series": found,
        "marks": _marks(axes),
    }
    # A label is foreign text: no "</script>" may end the element.
    return Markup(json.dumps(document, separators=(",", ":")).replace("<", "\\u003c"))


@cache
def script() -> Markup:
    """The library, and the script that plots a page's curves with it."""
    here = files("narrows.report")
    library = (here / "vendor" / "uPlot.iife.min.js").read_text(encoding="utf-8")
    return Markup(library + (here / "live.js").read_text(encoding="utf-8"))


@cache
def style_sheet() -> Markup:
    """The style of uPlot's plots."""
    sheet = files("narrows.report") / "vendor" / "uPlot.min.css"
    return Markup(sheet.read_text(encoding="utf-8"))


def _is_curve(line: Line2D) -> bool:
    """Whether a line is a curve with a name, one of its seeds, or a level that changes."""
    if isinstance(line, Mark):
        return line.kind == "course"
    label = str(line.get_label())
    return len(np.atleast_1d(line.get_xdata())) > 1 and (label == SEED or label[:1] != "_")


def _series(line: Line2D) -> dict[str, Any]:
    label = line.name.split("\n")[0] if isinstance(line, Mark) else str(line.get_label())
    steps = {"steps-pre": -1, "steps": -1, "steps-post": 1}
    x, y = _points(line)
    return {
        "label": "" if label == SEED else label,
        "color": css_color(to_hex(line.get_color())),
        "step": steps.get(line.get_drawstyle(), 0),
        "width": round(float(line.get_linewidth()), 2),
        "dash": line.is_dashed(),
        "x": x,
        "y": y,
    }


def _points(line: Line2D) -> tuple[list[float | None], list[float | None]]:
    """The points of a curve, no two at the same x; of several at one x, uPlot keeps only the last.

    Where a curve rises at once, its first point moves to the left by the smallest step that counts.
    """
    x = _rounded(line.get_xdata(), DIGITS_OF_X)
    y = _rounded(line.get_ydata(), DIGITS)
    if len(x) > 1 and x[0] == x[1]:
        x[0] -= max(abs(x[0]), 1.0) * 10.0 ** (1 - DIGITS_OF_X)
    last = np.append(x[1:] != x[:-1], True)
    return _numbers(x[last]), _numbers(y[last])


def _rounded(values: Any, digits: int) -> Floats:
    return np.asarray(
        [float(f"{value:.{digits}g}") for value in np.asarray(values, dtype=np.float64)]
    )


def _numbers(values: Floats) -> list[float | None]:
    """The values as floats, with None for NaN and infinity."""
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _axis(axis: Axis, ends: tuple[float, float]) -> dict[str, Any]:
    label = " ".join(axis.get_label_text().split())
    mixed = isinstance(axis.get_major_formatter(), Milliseconds)
    return {
        "label": label,
        "name": re.split(r"[,(]", label)[0].strip(),
        "unit": "ms" if mixed else unit_of(label),
        "ends": [float(end) for end in ends],
        "log": axis.get_scale() == "log",
        "mixed": mixed,
    }


def _marks(axes: Axes) -> list[dict[str, Any]]:
    found = [line for line in axes.get_lines() if isinstance(line, Mark)]
    return [
        {
            "axis": "y" if mark.kind == "level" else "x",
            "at": mark.at,
            "name": mark.name,
            "color": css_color(to_hex(mark.get_color())),
            "dash": mark.is_dashed(),
            "upright": mark.upright,
        }
        for mark in found
        if mark.kind != "course"
    ]
