"""Histograms with bins of 0.01: one group (the article's Figure 3), all together (Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from narrows.ratio.analysis import Group
from narrows.ratio.density import TOP, histogram
from narrows.ratio.plots.axes import TRIPS, ratio_axis
from narrows.records.plotted import Axis
from narrows.report.drawing import CYCLE, Curve, Drawing
from narrows.report.scales import completed

_SHARE = Axis("pairs in each 0.01 (%)", ends=(0.0, None))


def histogram_plot(group: Group, top: float = 6.0) -> Drawing:
    """Percent of the valid pairs in each bin of 0.01."""
    left, percent, _ = histogram(group.ratios)
    inside = left < top
    beyond = 100.0 * float(np.mean(group.ratios >= top))
    curve = Curve("pairs", "blue", left[inside], percent[inside], "after", 1.0)
    title = f"{group.label}: {group.peaks.count} pairs, {beyond:.1f} % beyond {top:g}"
    axis = ratio_axis(min(top, TOP))
    return completed(Drawing(title, axis, _SHARE, curves=[curve], levels=TRIPS))


def histograms_plot(groups: Mapping[str, Group], top: float = 5.0) -> Drawing:
    """All servers in one plot, each in percent of its own pairs."""
    curves = []
    for at, (label, group) in enumerate(groups.items()):
        left, percent, _ = histogram(group.ratios)
        inside = left < top
        colour, dash = CYCLE[at % len(CYCLE)], at >= len(CYCLE)
        curves.append(Curve(label, colour, left[inside], percent[inside], "after", 0.9, dash=dash))
    title = "All servers: how often each ratio, of each server's pairs"
    axis = ratio_axis(min(top, TOP))
    drawing = Drawing(title, axis, _SHARE, curves=curves, levels=TRIPS, height=4.0)
    return completed(drawing)
