"""What a run records, as declarations: tables, metrics of the summary, plots of the report.

The extension declares the tables. A kind of traffic that records more than every run names its
table and declares the metrics in its own file (`narrows.scenario.traffic`), with the classes of
this package. `narrows.results` writes, reads and summarises these records, and `narrows.report`
draws them. This package depends on neither.
"""

from __future__ import annotations

from narrows.records.plotted import Axis, Counter, Declaration, Series, Spans
from narrows.records.record import (
    Completed,
    Direction,
    Headline,
    Metric,
    Parts,
    Plot,
    Record,
)
from narrows.records.table import Column, Table, declared_table

__all__ = [
    "Axis",
    "Column",
    "Completed",
    "Counter",
    "Declaration",
    "Direction",
    "Headline",
    "Metric",
    "Parts",
    "Plot",
    "Record",
    "Series",
    "Spans",
    "Table",
    "declared_table",
]
