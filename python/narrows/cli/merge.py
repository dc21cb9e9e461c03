"""`narrows merge`: makes one run folder from several machines' records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Plots, Quiet, argument, option, plot_files
from narrows.cli.run_output import print_run, write_run_report

EXAMPLES = """\
# The records of one run, copied to one machine.
narrows merge records/* --out runs/lab

narrows compare runs/simulated runs/lab
"""


def command(
    records: Annotated[
        list[Path],
        argument("RECORD", "Folders that traffic serve, traffic drive, resolve and monitor wrote."),
    ],
    out: Annotated[
        Path | None, option("DIR", "The run folder. [default: runs/NAME-1, -2, ..]")
    ] = None,
    bound: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="MS",
            help="The largest clock error of a machine, in ms; records with more are refused.",
        ),
    ] = 10.0,
    json_output: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Also write plots and report.html.")
    ] = True,
    plots: Plots = None,
    quiet: Quiet = False,
) -> Exit:
    """Make one run folder from the records of several machines."""
    from narrows.machines import merge
    from narrows.results.folder import check_target

    kinds = plot_files(plots, written=report, needs="leave out --no-report")
    result = merge(records, bound_s=bound / 1e3)
    folder = out or free_folder(Path("runs"), str(result.scenario["name"]))
    check_target(folder)
    result = result.save(folder)
    if report:
        write_run_report(result, folder, kinds)
    print_run(result, "json" if json_output else "text")
    if not quiet:
        for flag in result.host["kernel"]["flags"]:
            say(f"flag: {flag}")
        say(f"wrote {folder}")
    return Exit.DONE
