"""The curves of figures as data, for interactive plots on a page that zoom and show values.

The data come from the figure that Matplotlib draws, so the picture and the plot show the same. Only
lines are taken, no bars or maps. The page's script (live.js) plots them with uPlot, which is
embedded once, so the page stays one file. Without scripts, the picture stays.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

__all__ = ["curves", "script", "style_sheet"]

DIGITS = 5
"""Significant digits of a value: more than a plot can show."""


def curves(figure: Figure) -> Markup | None:
    """A figure's curves as JSON that may stand in a page's script element; None without any.

    `title`, `x`, `y` and `log` (whether the x axis is logarithmic); of each of the `series` its
    `label`, `color`, `x`, `y`, `step` (-1: a value holds until its x, 1: from it on, 0: a line
    between points) and `width`. Other seeds of a curve follow it with an empty label.
    """
    if len(figure.axes) != 1:
        return None
    axes = figure.axes[0]
    # Lines that stand for a level or a moment have two points or fewer.
    found = [_series(line) for line in axes.get_lines() if len(np.atleast_1d(line.get_xdata())) > 2]
    if not any(each["label"] for each in found):
        return None
    document = {
        "title": axes.get_title(loc="left") or axes.get_title(),
        "x": axes.get_xlabel(),
        "y": " ".join(axes.get_ylabel().split()),
        "log": axes.get_xscale() == "log",
        "ends": _ends(axes),
        "series": found,
    }
    # A label is foreign text: no "</script>" may end the element.
    return Markup(json.dumps(document, separators=(",", ":")).replace("<", "\\u003c"))


@cache
def script() -> Markup:
    """The library, and what makes plots of a page's curves with it."""
    here = files("narrows.report")
    library = (here / "vendor" / "uPlot.iife.min.js").read_text(encoding="utf-8")
    return Markup(library + (here / "live.js").read_text(encoding="utf-8"))


@cache
def style_sheet() -> Markup:
    """The style of uPlot's plots."""
    sheet = files("narrows.report") / "vendor" / "uPlot.min.css"
    return Markup(sheet.read_text(encoding="utf-8"))


def _series(line: Line2D) -> dict[str, Any]:
    label = str(line.get_label())
    steps = {"steps-pre": -1, "steps": -1, "steps-post": 1}
    return {
        "label": "" if label.startswith("_") else label,
        "color": to_hex(line.get_color()),
        "step": steps.get(line.get_drawstyle(), 0),
        "width": round(float(line.get_linewidth()), 2),
        "x": _numbers(line.get_xdata()),
        "y": _numbers(line.get_ydata()),
    }


def _numbers(values: Any) -> list[float | None]:
    """Numbers of a few digits; None where there is none."""
    return [
        float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
        for value in np.asarray(values, dtype=np.float64).tolist()
    ]


def _ends(axes: Axes) -> list[float]:
    return [float(end) for end in axes.get_xlim()]
