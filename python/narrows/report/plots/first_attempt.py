"""First-attempt success of DNS queries, or another share of them, with intervals.

Published values are drawn beside them if there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from narrows.report import style
from narrows.report.plots import share_bars
from narrows.report.style import BLUE, MUTED


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
    height = 1.6 + (0.62 if any(bar.published is not None for bar in bars) else 0.36) * len(bars)
    figure, axes = style.new_figure(height=height)
    published = any(bar.published is not None for bar in bars)
    thick = 0.36 if published else share_bars.THICK
    for index, bar in enumerate(bars):
        at = index - (thick / 2 if published else 0.0)
        axes.barh(at, bar.percent, thick, color=BLUE, label=ours if index == 0 else None)
        share_bars.interval(axes, at, bar.percent, (bar.low, bar.high), "")
        share_bars.say(axes, at, max(bar.high, bar.percent), f"{bar.percent:.2f} %")
        if bar.published is not None:
            axes.barh(index + thick / 2, bar.published, thick, color=MUTED, alpha=0.5)
            text = f"{bar.published:.2f} %"
            share_bars.say(axes, index + thick / 2, bar.published, text, MUTED)
    if published:
        axes.barh([0], [0], color=MUTED, alpha=0.5, label="published")
    share_bars.complete(axes, [bar.label for bar in bars], title)
    style.below(figure)
    return figure
