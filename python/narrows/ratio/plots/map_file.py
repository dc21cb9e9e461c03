"""The map of vantage points as Matplotlib draws it into files."""

from __future__ import annotations

import polars as pl
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from narrows.ratio.plots.colours import RANGES
from narrows.ratio.plots.world import LAND, NORTH, SOUTH, outlines
from narrows.report import style
from narrows.report.paper import COLORS
from narrows.report.style import PAPER

_SIZES = ((100, 30.0), (1_500, 9.0), (float("inf"), 3.0))
"""Area of a point by the number of points: few must be visible, many must not hide each other."""


@style.styled
def map_plot(points: pl.DataFrame, label: str) -> Figure:
    """Points of `placed` on the outlines of countries."""
    figure, axes = style.new_figure(height=4.1, width=8.4)
    # With a fixed aspect, the layout leaves too little room for the title.
    figure.set_layout_engine("constrained", rect=(0.0, 0.0, 1.0, 0.96))
    axes.add_collection(
        PolyCollection(outlines(), facecolors=LAND, edgecolors=PAPER, linewidths=0.4, zorder=1)
    )
    size = next(size for most, size in _SIZES if points.height <= most)
    for number, part in enumerate(RANGES):
        chosen = points.filter(kind=number)
        if chosen.height:
            axes.scatter(
                chosen["longitude"].to_numpy(),
                chosen["latitude"].to_numpy(),
                s=size,
                color=COLORS[part.colour],
                linewidths=0,
                alpha=0.85,
                zorder=2 + abs(number - 1),
                label=f"{part.words} ({chosen.height})",
                rasterized=points.height > 3_000,
            )
    axes.set_xlim(-180.0, 180.0)
    axes.set_ylim(SOUTH, NORTH)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"{label}: median ratio of {points.height} vantage points")
    style.below(figure, columns=3, markers=(60.0 / size) ** 0.5)
    return figure
