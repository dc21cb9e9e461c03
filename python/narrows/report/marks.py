"""The marks in plots: levels, moments and changing levels, each a line with its name beside it.

Their names are not in the legend. `live` reads the marks back to draw them in the plot that a page
offers beside the plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from narrows.report.style import DASHES, MUTED

Kind = Literal["level", "moment", "course"]


class Mark(Line2D):
    """The line of a mark."""

    def __init__(
        self,
        kind: Kind,
        name: str,
        x: Sequence[float],
        y: Sequence[float],
        *,
        upright: bool = False,
        **looks: Any,
    ) -> None:
        super().__init__(x, y, **{"linewidth": 1.0, "zorder": 2.5, **looks})
        self.kind = kind
        self.name = name
        """The mark's name, in one line or more."""
        self.upright = upright
        """Whether the name is turned by 90 degrees."""

    @property
    def at(self) -> float:
        """The position of a level or a moment on its axis."""
        places = self.get_ydata() if self.kind == "level" else self.get_xdata()
        return float(np.asarray(places)[0])


def level(axes: Axes, at: float, name: str, color: str) -> None:
    """Draws a horizontal line, with its name in the right margin."""
    axes.add_line(
        Mark(
            "level",
            name,
            (0.0, 1.0),
            (at, at),
            color=color,
            linestyle=DASHES,
            transform=axes.get_yaxis_transform(),
        )
    )
    in_margin(axes, at, name, color)


def course(
    axes: Axes, steps: Sequence[tuple[float, float]], end: float, name: str, color: str
) -> None:
    """Draws a level that changes, from pairs of time and level, with its name beside the last."""
    times = [time for time, _ in steps]
    levels = [level for _, level in steps]
    axes.add_line(
        Mark(
            "course",
            name,
            [*times, end],
            [*levels, levels[-1]],
            color=color,
            linestyle=DASHES,
            drawstyle="steps-post",
        )
    )
    in_margin(axes, levels[-1], name, color)


def moment(axes: Axes, at: float, name: str, *, upright: bool = False) -> None:
    """Draws a vertical line, with its name to the right of its top, or upright to its left."""
    axes.add_line(
        Mark(
            "moment",
            name,
            (at, at),
            (0.0, 1.0),
            upright=upright,
            color=MUTED,
            linestyle=(0, (2, 2)) if upright else "solid",
            transform=axes.get_xaxis_transform(),
        )
    )
    axes.annotate(
        name,
        (at, 0.03 if upright else 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-2, 0) if upright else (4, -2),
        textcoords="offset points",
        rotation=90 if upright else 0,
        ha="right" if upright else "left",
        va="bottom" if upright else "top",
        fontsize=8.5 if upright else 9,
        color=MUTED,
    )


def in_margin(axes: Axes, level: float, name: str, color: str) -> None:
    """Writes a name in the right margin, at this level."""
    axes.annotate(
        name,
        (1.0, level),
        xycoords=("axes fraction", "data"),
        xytext=(5, 0),
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize=9,
        color=color,
        annotation_clip=False,
    )
