"""Writes and prints what commands say about a run."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.cli.failure import Exit, UserError, say
from narrows.cli.options import Form

if TYPE_CHECKING:
    from narrows.plot_files import PlotFile
    from narrows.results import Run
    from narrows.scenario import Scenario


def meanwhile_loading(update: Callable[[float], object], part: str) -> Callable[[float], object]:
    """Wraps a progress function so that it also loads a part of narrows that the end needs.

    A thread begins to load it at the first progress. By then, narrows has accepted the scenario.
    Another process or the simulator, which does not hold Python's lock, does the run's work.
    """
    loading: list[threading.Thread] = []

    def also(done: float) -> None:
        if not loading:
            # Not a daemon thread: ending it while it loads a C library may crash the interpreter.
            loading.append(
                threading.Thread(target=importlib.import_module, args=[f"narrows.{part}"])
            )
            loading[0].start()
        update(done)

    return also


def end_run(
    run: Run,
    scenario: Scenario,
    folder: Path,
    kinds: Sequence[PlotFile] | None,
    form: Form,
    quiet: bool,
) -> Exit:
    """Writes the report, prints the summary, and returns the exit code.

    Args:
        run: The run, which is already saved in its folder.
        scenario: The scenario of the run.
        folder: The run folder.
        kinds: The file types in which the report's plots are written; None for no report.
        form: Whether the summary is text, a JSON document, or a table for LaTeX.
        quiet: Whether to leave out the lines on the scenario and the folder.
    """
    from narrows.cli.schedules import schedules

    try:
        if kinds is not None:
            write_run_report(run, folder, kinds)
    except KeyboardInterrupt:
        say(f"interrupted; wrote {folder} without its report; hint: narrows report {folder}")
        return Exit.INTERRUPTED
    finally:
        # This prints even if the disk is full, and writes even if the reader of stdout has gone.
        print_run(run, form)
    if not quiet:
        for line in schedules(scenario):
            say(line)
        say(f"wrote {folder}")
    if run.status == "complete":
        return Exit.DONE
    say(f"the run is partial: {run.stopped}")
    return Exit.INTERRUPTED if run.stopped == "interrupted" else Exit.FAILED


def write_run_report(run: Run, folder: Path, kinds: Sequence[PlotFile]) -> None:
    """Writes report.html, and plots as files of these types, into the run's folder.

    Raises:
        UserError: They cannot be written; the run itself is complete.
    """
    from narrows.errors import NarrowsError
    from narrows.report import write_report

    try:
        write_report(run, folder, kinds)
    except (NarrowsError, OSError) as error:
        raise UserError(f"{error}; the run itself is complete, in {folder}") from None


def print_run(run: Run, form: Form) -> None:
    """Prints a run's summary as a table, also for LaTeX, or as one JSON document."""
    from narrows.results import summary_table

    if form == "json":
        print(json.dumps(run.document(), indent=2))
    else:
        summary_table(run).print(sys.stdout, latex=form == "latex")
