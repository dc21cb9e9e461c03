"""Plots of an analysis, one file for each plot."""

from __future__ import annotations

from narrows.ratio.plots.bars import failures_plot
from narrows.ratio.plots.cdf import ratio_cdf, times_cdf
from narrows.ratio.plots.day import over_day_plot
from narrows.ratio.plots.histogram import histogram_plot, histograms_plot
from narrows.ratio.plots.line import excess_plot, line_plot
from narrows.ratio.plots.ridges import ridges_plot
from narrows.ratio.plots.world import hover_map

__all__ = [
    "excess_plot",
    "failures_plot",
    "histogram_plot",
    "histograms_plot",
    "hover_map",
    "line_plot",
    "over_day_plot",
    "ratio_cdf",
    "ridges_plot",
    "times_cdf",
]
