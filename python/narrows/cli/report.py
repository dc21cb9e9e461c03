"""`narrows report`: the page of an existing run or sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from narrows.cli.complete import runs_and_sweeps
from narrows.cli.failure import UserError, say
from narrows.cli.options import Plots, Quiet, argument, option, plot_files

EXAMPLES = """\
# Writes runs/dns-behind-red-1/report.html, also where the run was
# interrupted before its report.
narrows report runs/dns-behind-red-1

narrows report runs/buffers --out page --plots pdf
"""

ELSEWHERE = {"--metric": "narrows sweep plot draws any metric of a sweep"}


def command(
    folder: Annotated[
        Path, argument("DIR", "A folder of a run or a sweep.", autocompletion=runs_and_sweeps)
    ],
    out: Annotated[
        Path | None, option("DIR", "Where the report goes. [default: the folder itself]")
    ] = None,
    plots: Plots = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of an existing run or sweep: report.html, and plots on request."""
    kinds = plot_files(plots)
    if (folder / "sweep.json").is_file():
        from narrows.report import write_sweep_report
        from narrows.results import Sweep

        path = write_sweep_report(Sweep.load(folder), out or folder, kinds)
    elif folder.is_dir():
        from narrows.report import write_run_report
        from narrows.results import Run

        path = write_run_report(Run.load(folder), out or folder, kinds)
    else:
        raise UserError(f"{folder}: is not a folder; hint: narrows run writes folders to runs/")
    if not quiet:
        say(f"wrote {path}")
