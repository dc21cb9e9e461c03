"""What a run records, as declarations: tables, metrics of the summary, plots of the report.

The extension declares the tables. A kind of traffic that records more than every run names its
table and declares the metrics in its own file (`narrows.scenario.traffic`), with the classes of
this package. `narrows.results` writes, reads and summarises these records, and `narrows.report`
draws them. This package depends on neither.
"""

from __future__ import annotations

from narrows.records.plot_files import PLOT_FILES, USUAL_PLOT_FILES, PlotFile
from narrows.records.record import (
    Completed,
    Direction,
    Headline,
    Metric,
    Parts,
    Pen,
    Plot,
    Record,
)
from narrows.records.table import Column, Table, declared_table

__all__ = [
    "PLOT_FILES",
    "USUAL_PLOT_FILES",
    "Column",
    "Completed",
    "Direction",
    "Headline",
    "Metric",
    "Parts",
    "Pen",
    "Plot",
    "PlotFile",
    "Record",
    "Table",
    "declared_table",
]
