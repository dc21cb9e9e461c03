"""How plots look, and how they become files; the same plot gives the same bytes.

Colours are those of Okabe and Ito ("Color universal design", 2008), which colour-blind readers can
tell apart. Plots are made with Matplotlib's object-oriented interface on its file canvas, without
global state.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.textpath import TextPath
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from narrows.records.numbers import Floats
from narrows.report.metadata import NOTHING, Metadata

__all__ = [
    "BLUE",
    "CYCLE",
    "DASHES",
    "GREEN",
    "INK",
    "MUTED",
    "ORANGE",
    "PAPER",
    "PURPLE",
    "SEED",
    "SKY",
    "VERMILION",
    "Floats",
    "below",
    "css_color",
    "faint",
    "from_zero",
    "name_axes",
    "new_figure",
    "pdf",
    "plain_ticks",
    "png",
    "styled",
    "svg",
    "svg_inline",
    "text_width",
    "wrapped",
]


INK = "#22272e"
MUTED = "#6b7280"
GRID = "#e3e6ea"
PAPER = "#ffffff"
BLUE = "#0072b2"
ORANGE = "#e69f00"
GREEN = "#009e73"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"
SKY = "#56b4e9"

CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
"""Colours of runs that are compared, in order."""

# The type is Any, because the stubs want every key as a literal.
_STYLE: Any = {
    # Text stays text in SVG and PDF files; if the font is missing, the reader's own replaces it.
    "font.family": ["DejaVu Sans", "sans-serif"],
    "pdf.fonttype": 42,
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlelocation": "left",
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "axes.titlepad": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": PAPER,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "narrows",
    "path.simplify": True,
    "figure.dpi": 100.0,
    "savefig.dpi": 160.0,
}

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    BLUE: "--blue",
    GREEN: "--green",
    PURPLE: "--purple",
    VERMILION: "--vermilion",
}
"""Colours that a page may change for dark screens."""


DASHES = (0, (5, 3))
"""The dashes of lines that show what could be."""

SEED = "_seed"
"""The label of a single seed's curve. The curve belongs to the one before it and is not in the
legend."""

P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Makes a drawing function use this style, whatever Matplotlib's settings are."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with mpl.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


def css_color(color: str) -> str:
    """The CSS variable that stands for a colour on a page, or the colour itself."""
    return _VARIABLES.get(color, color)


def new_figure(height: float = 3.4, width: float = 7.6) -> tuple[Figure, Axes]:
    """An empty plot with one pair of axes; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def below(figure: Figure, columns: int = 4, markers: float = 1.0, title: str = "") -> None:
    """Puts the legend below the axes, where it hides nothing.

    It has as many columns as fit into the plot's width, and at most `columns`. Its markers are
    larger by the factor `markers`.
    """
    labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
    room = 72.0 * figure.get_figwidth()
    figure.legend(
        title=title or None,
        title_fontsize=_LEGEND_SIZE,
        alignment="left",
        loc="outside lower left",
        ncols=next(
            (number for number in range(columns, 1, -1) if _legend_width(labels, number) <= room), 1
        ),
        handlelength=_HANDLE,
        fontsize=_LEGEND_SIZE,
        markerscale=markers,
    )


_LEGEND_SIZE = 9.5
"""The size of the legend's text, in points."""
_HANDLE = 1.6
"""Length of a line in the legend, in units of the text's size."""


def _legend_width(labels: Sequence[str], columns: int) -> float:
    """How wide a legend is, in points: Matplotlib gives the first columns the labels left over."""
    rows, longer = divmod(len(labels), columns)
    spaces = _HANDLE + mpl.rcParams["legend.handletextpad"] + mpl.rcParams["legend.columnspacing"]
    widths = iter([text_width(label) for label in labels])
    wide = 0.0
    for column in range(columns):
        wide += max(islice(widths, rows + (column < longer)), default=0.0) + spaces * _LEGEND_SIZE
    return wide


def text_width(text: str, size: float = _LEGEND_SIZE, *, bold: bool = False) -> float:
    """How wide a line of text is, in points."""
    family = mpl.rcParams["font.family"]
    font = FontProperties(family=family, weight="bold" if bold else "normal")
    path = TextPath((0.0, 0.0), text, size=size, prop=font)
    # An outline's points bound it closely, and `get_extents` takes milliseconds. The point that
    # closes an outline has no place.
    across = path.vertices[path.codes != TextPath.CLOSEPOLY, 0] if text.strip() else ()
    return float(np.ptp(across)) if len(across) else 0.0


def wrapped(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Wraps text into lines of at most `room` points, unless a single word is wider."""
    lines: list[str] = []
    for given in text.split("\n"):
        line = ""
        # A percentage and its sign stay together, and so does a unit in parentheses.
        for word in re.split(r" (?!%)(?![^()]*\))", given):
            longer = f"{line} {word}" if line else word
            if line and text_width(longer, size, bold=bold) > room:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return "\n".join(lines)


def name_axes(axes: Axes, title: str, x: str, y: str, pad: float | None = None) -> None:
    """Gives the plot's only axes a title and labels, which wrap where they are long."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure), "the axes are a figure's own"
    width, height = (72.0 * inches for inches in figure.get_size_inches())
    size = float(mpl.rcParams["font.size"])
    large = float(mpl.rcParams["axes.titlesize"])
    axes.set_title(wrapped(title, width - _BESIDE, large, bold=True), pad=pad)
    axes.set_xlabel(wrapped(x, width - _BESIDE, size))
    axes.set_ylabel(wrapped(y, height - _ABOVE_AND_BELOW, size))


_BESIDE = 80.0
"""The most points beside the axes, for labels and ticks."""
_ABOVE_AND_BELOW = 110.0
"""The most points above and below the axes: title, ticks, label and a legend of one line."""


def from_zero(axes: Axes, top: float | None = None) -> None:
    """Starts the vertical axis at zero, with room above ``top`` (above the data, if None)."""
    high = axes.get_ylim()[1] if top is None else 1.12 * top
    axes.set_ylim(0.0, high if high > 0.0 else 1.0)


def faint(axes: Axes, x: Floats, y: Floats, color: str, drawstyle: Any = "default") -> None:
    """Draws a curve of another seed behind the named one."""
    axes.plot(
        x, y, color=color, linewidth=0.6, alpha=0.35, zorder=1.8, label=SEED, drawstyle=drawstyle
    )


def plain_ticks(axis: Axis, low: float, high: float) -> None:
    """Gives a logarithmic axis from `low` to `high` ticks with plain numbers.

    Below a decade, ticks are at round numbers; below three, at 1, 2 and 5; else at powers of ten.
    """
    decades = math.log10(high / low) if 0.0 < low < high else 1.0
    if decades < 1.0:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 3.0 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def png(figure: Figure, about: Metadata = NOTHING) -> bytes:
    """The plot as PNG, without a date."""
    with mpl.rc_context(_STYLE), _laid_out(figure):
        buffer = io.BytesIO()
        canvas: Any = FigureCanvasAgg(figure)  # without types
        canvas.print_png(buffer, metadata=about.png())
        return buffer.getvalue()


def svg(figure: Figure, about: Metadata = NOTHING) -> str:
    """The plot as SVG, without a date and with the same names each time."""
    with mpl.rc_context(_STYLE), _laid_out(figure):
        buffer = io.StringIO()
        canvas: Any = FigureCanvasSVG(figure)  # without types
        canvas.print_svg(buffer, metadata=about.svg())
        return buffer.getvalue()


def pdf(figure: Figure, about: Metadata = NOTHING) -> bytes:
    """The plot as PDF with text as text, without a date."""
    with mpl.rc_context(_STYLE), _laid_out(figure):
        buffer = io.BytesIO()
        canvas: Any = FigureCanvasPdf(figure)  # without types
        canvas.print_pdf(buffer, metadata=about.pdf())
        return buffer.getvalue()


@contextmanager
def _laid_out(figure: Figure) -> Iterator[None]:
    """Lays a plot out once for files of all kinds, and gives it a PNG's resolution for a block.

    `print_figure` would draw the plot twice and lay it out anew for each kind, which takes most
    of a report's time.
    """
    resolution = figure.get_dpi()
    figure.set_dpi(mpl.rcParams["savefig.dpi"])
    try:
        if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
            FigureCanvasAgg(figure)
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        yield
    finally:
        figure.set_dpi(resolution)


def svg_inline(text: str, name: str, title: str) -> str:
    """A plot's SVG as an element of a page: names prefixed, colours as CSS variables.

    Args:
        text: What `svg` gave.
        name: Unique on the page; identifiers begin with it.
        title: What the plot shows, for readers who cannot see it.
    """
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    for color, variable in _VARIABLES.items():
        text = text.replace(color, f"var({variable}, {color})")
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, count=1, flags=re.DOTALL)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        f'{head} role="img" aria-labelledby="{name}-title">'
        f'<title id="{name}-title">{escaped}</title>{rest}'
    )
