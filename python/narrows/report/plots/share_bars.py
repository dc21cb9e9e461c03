"""What plots with bars of shares have in common: the axis, the thickness and the lettering."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from narrows.report.style import INK

THICK = 0.62
"""How thick a bar is; bars are 1 apart."""

_END = 125.0
"""The end of the axis, in percent, which leaves room for text beside a bar of 100 %."""


def interval(axes: Axes, at: float, share: float, ends: tuple[float, float], label: str) -> None:
    """Draws the 95 % interval of a bar's share."""
    low, high = ends
    axes.errorbar(
        share,
        at,
        xerr=[[max(0.0, share - low)], [max(0.0, high - share)]],
        color=INK,
        capsize=4,
        linewidth=1.4,
        label=label or None,
    )


def say(axes: Axes, at: float, right: float, text: str, color: str = INK) -> None:
    """Writes text to the right of a bar and its interval."""
    axes.annotate(
        text,
        (right, at),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=9.5,
        color=color,
    )


def complete(axes: Axes, names: Sequence[str], title: str) -> None:
    """Names the bars and the axis, which begins at zero."""
    axes.set_yticks(range(len(names)), list(names))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.0, _END)
    axes.set_xticks(range(0, 101, 20))
    axes.set_title(title)
    axes.set_xlabel("share of the measured queries (%)")
