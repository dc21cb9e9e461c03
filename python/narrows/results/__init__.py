"""Results of a run: the run folder, its tables and its summary.

Everything that plots, compares or reports reads run folders through this package.
"""

from __future__ import annotations

from narrows.results.compare import Comparison, compare
from narrows.results.compare_sweeps import compare_sweeps
from narrows.results.errors import RunFolderError
from narrows.results.folder import RUN_FILE
from narrows.results.measurement import Measurement
from narrows.results.run import Run
from narrows.results.schema import FORMAT, TABLES
from narrows.results.sweep import SWEEP_FILE, Sweep
from narrows.results.sweep_run import Axis, SweepRun
from narrows.results.text import TextTable, summary_table

__all__ = [
    "FORMAT",
    "RUN_FILE",
    "SWEEP_FILE",
    "TABLES",
    "Axis",
    "Comparison",
    "Measurement",
    "Run",
    "RunFolderError",
    "Sweep",
    "SweepRun",
    "TextTable",
    "compare",
    "compare_sweeps",
    "summary_table",
]
