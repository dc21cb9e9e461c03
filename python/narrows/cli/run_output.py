"""What commands leave and print of a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.cli.failure import UserError

if TYPE_CHECKING:
    from narrows.results import Run

__all__ = ["print_run", "write_run_report"]


def write_run_report(run: Run, folder: Path) -> None:
    """Writes figures and report.html into the run's folder.

    Raises:
        UserError: They cannot be written; the run itself is whole.
    """
    from narrows.errors import NarrowsError
    from narrows.report import write_report

    try:
        write_report(run, folder)
    except (NarrowsError, OSError) as error:
        raise UserError(f"{error}; the run itself is whole, in {folder}") from None


def print_run(run: Run, *, json_output: bool) -> None:
    """Prints its summary: a table, or one JSON document."""
    from narrows.results import summary_table

    if json_output:
        print(json.dumps(run.document(), indent=2))
    else:
        summary_table(run).print(sys.stdout)
