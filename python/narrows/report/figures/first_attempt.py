"""First-attempt success of DNS queries, or another share of them, with intervals.

Published values stand beside them, where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.style import BLUE, INK, MUTED

__all__ = ["Bar", "first_attempt"]


@dataclass(frozen=True)
class Bar:
    """The bar of one case."""

    label: str
    percent: float
    """Percent of the queries answered at the first attempt, or the share that the title names."""
    low: float
    """Lower end of the interval, in percent."""
    high: float
    """Upper end of the interval, in percent."""
    published: float | None = None
    """The published value, in percent; None if there is none."""


@style.styled
def first_attempt(
    bars: Sequence[Bar],
    ours: str = "narrows, with 95 % interval",
    title: str = "DNS queries answered at the first attempt",
) -> Figure:
    """A bar for each case, from zero, with its interval and the published value, if any."""
    height = 1.2 + (0.62 if any(bar.published is not None for bar in bars) else 0.44) * len(bars)
    figure, axes = style.new_figure(height=max(1.9, height))
    published = any(bar.published is not None for bar in bars)
    thick = 0.36 if published else 0.6
    for index, bar in enumerate(bars):
        at = index - (thick / 2 if published else 0.0)
        axes.barh(at, bar.percent, thick, color=BLUE, label=ours if index == 0 else None)
        axes.plot([bar.low, bar.high], [at, at], color=INK, linewidth=1.6)
        for end in (bar.low, bar.high):
            axes.plot([end, end], [at - thick / 5, at + thick / 5], color=INK, linewidth=1.6)
        _value(figure, at, bar.percent, max(bar.high, bar.percent), INK)
        if bar.published is not None:
            axes.barh(index + thick / 2, bar.published, thick, color=MUTED, alpha=0.5)
            _value(figure, index + thick / 2, bar.published, bar.published, MUTED)
    if published:
        axes.barh([0], [0], color=MUTED, alpha=0.5, label="published")
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0.0, 112.0)
    axes.set_xticks(range(0, 101, 20))
    axes.set_title(title)
    axes.set_xlabel("share of the measured queries (%)")
    style.below(figure)
    return figure


def _value(figure: Figure, at: float, percent: float, right: float, color: str) -> None:
    figure.axes[0].annotate(
        f"{percent:.2f}",
        (right, at),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=9.5,
        color=color,
    )
