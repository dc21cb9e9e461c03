"""Histograms with bins of 0.01: one group (the article's Figure 3), all together (Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.ratio.analysis import Group
from narrows.ratio.density import BIN, TOP, histogram
from narrows.ratio.plots.colours import colour_of
from narrows.report import style
from narrows.report.style import BLUE, MUTED


@style.styled
def histogram_plot(group: Group, top: float = 6.0) -> Figure:
    """Percent of the valid pairs in each bin of 0.01."""
    figure, axes = style.new_figure(height=3.4)
    left, percent, _ = histogram(group.ratios)
    inside = left < top
    axes.bar(left[inside], percent[inside], width=BIN, align="edge", color=BLUE, linewidth=0)
    _finish(axes, float(percent[inside].max(initial=0.0)), top)
    beyond = 100.0 * float(np.mean(group.ratios >= top))
    axes.set_title(f"{group.label}: {group.peaks.count} pairs, {beyond:.1f} % beyond {top:g}")
    return figure


@style.styled
def histograms_plot(groups: Mapping[str, Group], top: float = 5.0) -> Figure:
    """All servers in one plot, each in percent of its own pairs and coloured by its mode."""
    figure, axes = style.new_figure(height=4.0)
    highest = 0.0
    tips: list[tuple[float, float, str, str]] = []
    for label, group in groups.items():
        left, percent, _ = histogram(group.ratios)
        inside = left < top
        colour = colour_of(group.peaks.mode)
        axes.step(
            left[inside], percent[inside], where="post", color=colour, linewidth=0.9, alpha=0.75
        )
        at = int(np.argmax(percent[inside]))
        tips.append((float(left[at]), float(percent[at]), label, colour))
        highest = max(highest, float(percent[inside].max(initial=0.0)))
    _finish(axes, 1.06 * highest, top)
    # Names are next to their peaks, and move apart if they would overlap.
    lowest: dict[int, float] = {}
    for ratio, percent_there, label, colour in sorted(tips, key=lambda tip: -tip[1]):
        column = round(ratio)
        level = min(percent_there, lowest.get(column, np.inf) - 0.06 * highest)
        lowest[column] = level
        axes.annotate(
            label,
            (ratio, percent_there),
            xytext=(ratio + 0.16, level),
            fontsize=8.5,
            color=colour,
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5},
        )
    axes.set_title("All servers: how often each ratio, of each server's pairs")
    return figure


def _finish(axes: Axes, highest: float, top: float) -> None:
    for level in (2.0, 3.0):
        axes.axvline(level, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
    style.from_zero(axes, highest)
    axes.set_xlim(0.0, min(top, TOP))
    axes.set_xlabel("TCP response time / UDP response time")
    axes.set_ylabel("percent of pairs\nper 0.01")
