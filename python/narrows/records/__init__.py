"""What a run records, as declarations: tables, figures of the summary, figures of the report.

The extension declares the tables. A kind of traffic that records more than every run names its
table and declares the figures in its own file (`narrows.scenario.traffic`), with the classes of
this package. `narrows.results` writes, reads and summarises these records, and `narrows.report`
draws them. This package depends on neither.
"""

from __future__ import annotations

from narrows.records.figure_files import FIGURE_FILES, USUAL_FIGURE_FILES, FigureFile
from narrows.records.record import (
    Completed,
    Direction,
    Figure,
    Headline,
    Parts,
    Pen,
    Plot,
    Record,
)
from narrows.records.table import Column, Table, declared_table

__all__ = [
    "FIGURE_FILES",
    "USUAL_FIGURE_FILES",
    "Column",
    "Completed",
    "Direction",
    "Figure",
    "FigureFile",
    "Headline",
    "Parts",
    "Pen",
    "Plot",
    "Record",
    "Table",
    "declared_table",
]
