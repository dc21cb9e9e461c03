"""Densities one above the other: servers (the article's Figure 1) or days (its Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from narrows.ratio.analysis import Group
from narrows.ratio.density import density
from narrows.ratio.plots.axes import TRIPS, ratio_axis
from narrows.ratio.plots.colours import colour_of
from narrows.records.plotted import Axis
from narrows.report.drawing import Curve, Drawing

_TOP = 6.0


def ridges_plot(groups: Mapping[str, Group], top: float = _TOP) -> Drawing:
    """The density of each group's ratios, scaled to the same height, coloured by its mode."""
    count = len(groups)
    curves: list[Curve] = []
    ticks = []
    for row, (name, group) in enumerate(groups.items()):
        base = float(count - 1 - row)
        smooth = density(group.ratios)
        inside = smooth.ratio <= top
        height = smooth.density[inside]
        scaled = base + 0.92 * height / max(float(height.max(initial=0.0)), 1e-12)
        colour = colour_of(group.peaks.mode)
        curves.append(Curve("", colour, smooth.ratio[inside], scaled, "area", 1.2, base=base))
        middle = group.peaks.quantiles[0.5]
        tick = np.asarray([middle, middle]), np.asarray([base, base + 0.12])
        curves.append(Curve("", "ink", *tick))
        beyond = 100.0 * float(np.mean(group.ratios > top))
        share = f"\n({beyond:.1f} % > {top:g})" if beyond >= 0.05 else ""
        ticks.append((base + 0.3, f"{name}{share}"))
    return Drawing(
        "Density of the ratio (tick: median)",
        ratio_axis(top),
        Axis("", ends=(-0.05, count + 0.05), ticks=ticks),
        curves=curves,
        levels=TRIPS,
        height=1.3 + 0.62 * count,
    )
