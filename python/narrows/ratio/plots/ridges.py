"""Densities one above the other: servers (the article's Figure 1) or days (its Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from narrows.ratio.analysis import Group
from narrows.ratio.density import density
from narrows.ratio.plots.colours import colour_of
from narrows.report import style
from narrows.report.style import INK, MUTED

_TOP = 6.0


@style.styled
def ridges_plot(groups: Mapping[str, Group], top: float = _TOP) -> Figure:
    """The density of each group's ratios, scaled to the same height, coloured by its mode."""
    count = len(groups)
    figure, axes = style.new_figure(height=1.3 + 0.62 * count)
    for row, group in enumerate(groups.values()):
        base = float(count - 1 - row)
        smooth = density(group.ratios)
        inside = smooth.ratio <= top
        height = smooth.density[inside]
        scaled = base + 0.92 * height / max(float(height.max(initial=0.0)), 1e-12)
        colour = colour_of(group.peaks.mode)
        axes.fill_between(smooth.ratio[inside], base, scaled, color=colour, alpha=0.28, linewidth=0)
        axes.plot(smooth.ratio[inside], scaled, color=colour, linewidth=1.2)
        axes.plot([0.0, top], [base, base], color=style.GRID, linewidth=0.8)
        beyond = 100.0 * float(np.mean(group.ratios > top))
        axes.text(top, base + 0.45, _beyond(beyond, top), ha="right", fontsize=8.5, color=MUTED)
        middle = group.peaks.quantiles[0.5]
        axes.plot([middle, middle], [base, base + 0.12], color=INK, linewidth=1.4)
    for level in (2.0, 3.0):
        axes.axvline(level, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=0)
    axes.set_yticks([count - 1 - row + 0.3 for row in range(count)], list(groups))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0.0, top)
    axes.set_ylim(-0.05, count + 0.05)
    axes.set_xticks(np.arange(0.0, top + 0.1, 1.0))
    axes.set_xlabel("TCP response time / UDP response time")
    axes.set_title("Density of the ratio (tick: median)")
    return figure


def _beyond(percent: float, top: float) -> str:
    return f"{percent:.1f} % above {top:g}" if percent >= 0.05 else ""
