"""Plots and HTML reports, from run folders alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from narrows.records import USUAL_PLOT_FILES, PlotFile
from narrows.report.comparison_report import write_comparison
from narrows.report.run_report import REPORT_FILE, write_run_report
from narrows.report.sweep_plot import SweepPlot, plot_sweep
from narrows.results import Run

__all__ = [
    "REPORT_FILE",
    "SweepPlot",
    "plot_sweep",
    "write_comparison",
    "write_report",
    "write_run_report",
]


def write_report(
    run: Run, folder: str | Path, kinds: Sequence[PlotFile] = USUAL_PLOT_FILES
) -> Path:
    """Writes a run's report into ``folder``; the same as `write_run_report`."""
    return write_run_report(run, folder, kinds)
