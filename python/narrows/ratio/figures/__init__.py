"""Figures of an analysis, one file for each figure."""

from __future__ import annotations

from narrows.ratio.figures.bars import failures_figure
from narrows.ratio.figures.cdf import ratio_cdf, times_cdf
from narrows.ratio.figures.day import over_day_figure
from narrows.ratio.figures.histogram import histogram_figure, histograms_figure
from narrows.ratio.figures.line import excess_figure, line_figure
from narrows.ratio.figures.ridges import ridges_figure
from narrows.ratio.figures.world import hover_map, map_figure

__all__ = [
    "excess_figure",
    "failures_figure",
    "histogram_figure",
    "histograms_figure",
    "hover_map",
    "line_figure",
    "map_figure",
    "over_day_figure",
    "ratio_cdf",
    "ridges_figure",
    "times_cdf",
]
