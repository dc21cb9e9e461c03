"""One plot per file: those here declare plots of runs; others draw sweeps and comparisons."""

from __future__ import annotations

from narrows.report.plots.attempts import attempts
from narrows.report.plots.backlog import backlog
from narrows.report.plots.delays import delayed_groups, delays
from narrows.report.plots.drop_rate import drop_rate
from narrows.report.plots.flow_states import QUANTITIES, flow_lines, flow_states, mean_of_line
from narrows.report.plots.goodput import goodput, goodput_groups, goodputs, series_name
from narrows.report.plots.response_cdf import response_cdf
from narrows.report.plots.sojourn import sojourn
from narrows.report.plots.utilisation import utilisation
from narrows.report.plots.waits import class_waits, shown_classes, waiting_classes, waits

__all__ = [
    "QUANTITIES",
    "attempts",
    "backlog",
    "class_waits",
    "delayed_groups",
    "delays",
    "drop_rate",
    "flow_lines",
    "flow_states",
    "goodput",
    "goodput_groups",
    "goodputs",
    "mean_of_line",
    "response_cdf",
    "series_name",
    "shown_classes",
    "sojourn",
    "utilisation",
    "waiting_classes",
    "waits",
]
