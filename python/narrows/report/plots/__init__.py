"""One plot per file; each function takes runs and returns a Matplotlib figure."""

from __future__ import annotations

from narrows.report.plots.against import Mean, Series, Ticks, against
from narrows.report.plots.attempts import attempts
from narrows.report.plots.backlog import backlog
from narrows.report.plots.backlogs import backlogs
from narrows.report.plots.differences import Change, differences
from narrows.report.plots.drop_rate import drop_rate, ewma
from narrows.report.plots.first_attempt import Bar, first_attempt
from narrows.report.plots.flow_states import QUANTITIES, Quantity, curve, flow_lines, flow_states
from narrows.report.plots.goodput import goodput, goodput_groups, goodputs, series_name
from narrows.report.plots.response_cdf import response_cdf
from narrows.report.plots.sojourn import sojourn
from narrows.report.plots.utilisation import utilisation

__all__ = [
    "QUANTITIES",
    "Bar",
    "Change",
    "Mean",
    "Quantity",
    "Series",
    "Ticks",
    "against",
    "attempts",
    "backlog",
    "backlogs",
    "curve",
    "differences",
    "drop_rate",
    "ewma",
    "first_attempt",
    "flow_lines",
    "flow_states",
    "goodput",
    "goodput_groups",
    "goodputs",
    "response_cdf",
    "series_name",
    "sojourn",
    "utilisation",
]
