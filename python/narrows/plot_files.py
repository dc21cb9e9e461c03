"""The file types in which plots can be written."""

from __future__ import annotations

from typing import Literal, get_args

PlotFile = Literal["png", "svg", "pdf"]
"""A file type, which is also the suffix. In SVG and PDF, text stays text."""

PLOT_FILES: tuple[PlotFile, ...] = get_args(PlotFile)

USUAL_PLOT_FILES: tuple[PlotFile, ...] = ("png", "svg")
"""The default file types."""
