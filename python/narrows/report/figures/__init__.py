"""One figure per file; each function takes runs and returns a Matplotlib figure."""

from __future__ import annotations

from narrows.report.figures.against import Mean, Series, Ticks, against
from narrows.report.figures.attempts import attempts
from narrows.report.figures.backlog import backlog
from narrows.report.figures.backlogs import backlogs
from narrows.report.figures.differences import Change, differences
from narrows.report.figures.drop_rate import drop_rate, ewma
from narrows.report.figures.first_attempt import Bar, first_attempt
from narrows.report.figures.goodput import goodput, goodput_groups, goodputs, series_name
from narrows.report.figures.response_cdf import response_cdf
from narrows.report.figures.sojourn import sojourn
from narrows.report.figures.utilisation import utilisation

__all__ = [
    "Bar",
    "Change",
    "Mean",
    "Series",
    "Ticks",
    "against",
    "attempts",
    "backlog",
    "backlogs",
    "differences",
    "drop_rate",
    "ewma",
    "first_attempt",
    "goodput",
    "goodput_groups",
    "goodputs",
    "response_cdf",
    "series_name",
    "sojourn",
    "utilisation",
]
