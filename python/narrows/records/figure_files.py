"""The file types in which figures can be written."""

from __future__ import annotations

from typing import Literal, get_args

FigureFile = Literal["png", "svg", "pdf"]
"""A file type, which is also the suffix. In SVG and PDF, text stays text."""

FIGURE_FILES: tuple[FigureFile, ...] = get_args(FigureFile)

USUAL_FIGURE_FILES: tuple[FigureFile, ...] = ("png", "svg")
"""The default file types."""
