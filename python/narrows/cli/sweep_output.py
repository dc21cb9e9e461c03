"""Prints what `narrows sweep` says about a sweep, and gives the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from narrows.cli.ending import ended
from narrows.cli.failure import Exit
from narrows.cli.options import Form
from narrows.results import Sweep
from narrows.results.sweep_means import table_of_metrics
from narrows.results.sweep_text import sweep_text


def print_sweep(sweep: Sweep, metrics: Sequence[str], *, all_metrics: bool, form: Form) -> None:
    """Prints the means of each combination, or one JSON document.

    Args:
        sweep: The sweep.
        metrics: The metrics to show; the usual ones if empty.
        all_metrics: Whether to add a table of the names of all metrics.
        form: Whether to print text, the JSON document, or tables for LaTeX.
    """
    if form == "json":
        print(json.dumps(sweep.document(), indent=2, allow_nan=False))
        return
    sweep_text(sweep, metrics).print(sys.stdout, latex=form == "latex")
    if all_metrics:
        table_of_metrics(sweep).print(sys.stdout, latex=form == "latex")


def end_sweep(sweep: Sweep, *, quiet: bool) -> Exit:
    """Prints which runs failed and where the sweep is, and returns the exit code."""
    counts = sweep.counts()
    return ended(
        sweep.status,
        [run.failure for run in sweep.failures],
        others="see column message",
        wrote=sweep.folder,
        interrupted=f" after {len(sweep.runs)} of {sweep.total} runs; the same command continues",
        failed=f"{counts['failed'] + counts['partial']} of {sweep.total} runs failed",
        quiet=quiet,
    )
