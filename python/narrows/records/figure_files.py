"""The kinds of files that figures can be written as."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["FIGURE_FILES", "USUAL_FIGURE_FILES", "FigureFile"]

FigureFile = Literal["png", "svg", "pdf"]
"""A kind of file, which is also its suffix. In SVG and PDF, text stays text."""

FIGURE_FILES: tuple[FigureFile, ...] = get_args(FigureFile)

USUAL_FIGURE_FILES: tuple[FigureFile, ...] = ("png", "svg")
"""What is written if nobody asks for something else."""
