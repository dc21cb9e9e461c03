"""Plots and HTML reports, from run folders alone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.report.comparison_report import write_comparison
    from narrows.report.run_report import REPORT_FILE, write_report, write_run_report
    from narrows.report.sweep_plot import SweepPlot, plot_sweep
    from narrows.report.sweep_report import write_sweep_report

__all__ = [
    "REPORT_FILE",
    "SweepPlot",
    "plot_sweep",
    "write_comparison",
    "write_report",
    "write_run_report",
    "write_sweep_report",
]

_HOMES = {
    "REPORT_FILE": "run_report",
    "SweepPlot": "sweep_plot",
    "plot_sweep": "sweep_plot",
    "write_comparison": "comparison_report",
    "write_report": "run_report",
    "write_run_report": "run_report",
    "write_sweep_report": "sweep_report",
}


def __getattr__(name: str) -> Any:
    """Imports a name on first use: a run's report needs no comparison and no sweep."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
