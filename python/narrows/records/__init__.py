"""What a run records, as declarations: tables, figures of the summary, figures of the report.

A kind of traffic that records more than every run does declares it in its own file
(`narrows.scenario.traffic`) with the classes of this package. `narrows.results` writes, reads and
summarises what was declared, and `narrows.report` draws it. This package knows neither of them.
"""

from __future__ import annotations

from narrows.records.record import Completed, Figure, Headline, Parts, Pen, Picture, Record
from narrows.records.table import Column, Table

__all__ = [
    "Column",
    "Completed",
    "Figure",
    "Headline",
    "Parts",
    "Pen",
    "Picture",
    "Record",
    "Table",
]
