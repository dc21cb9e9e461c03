"""`narrows compare`: runs side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import runs as run_folders
from narrows.cli.failure import UserError, say
from narrows.cli.options import Json, Quiet

EXAMPLES = """\
[bold]narrows compare runs/dns-behind-fifo-1 runs/dns-behind-red-1[/bold] # prints their figures and
the difference to the first, with confidence intervals.

[bold]narrows compare runs/fifo-* runs/red-* --out comparison[/bold] # writes report.html with the
curves drawn over each other. Runs of one scenario with different seeds count as repetitions.
"""


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN...",
            help="Run folders, two or more.",
            autocompletion=run_folders,
            show_default=False,
        ),
    ],
    json_output: Json = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a report with figures there.", show_default=False),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Set runs side by side: figures, and differences with their confidence intervals."""
    if len(runs) < 2:
        raise UserError(f"{runs[0]}: one run has nothing to be compared with; hint: name a second")
    from narrows.results import Run, compare

    comparison = compare([Run.load(folder) for folder in runs])
    if json_output:
        print(json.dumps(comparison.document(), indent=2))
    else:
        comparison.table().print(sys.stdout)
    if out is not None:
        from narrows.report import write_comparison

        write_comparison(comparison, out)
        if not quiet:
            say(f"wrote {out}")
