"""`narrows suite rfc7928`: characterises queues as RFC 7928 says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.ending import EXIT_CODES
from narrows.cli.failure import Exit
from narrows.cli.options import Json, PlotFiles, Plugins, Quiet, Workers, option, plot_files
from narrows.cli.suites import Against, QueueOption, end_suite, out_option, seeds_option
from narrows.plot_files import USUAL_PLOT_FILES
from narrows.progress import shown

EXAMPLES = """\
# Every section of the RFC, for CoDel and PIE compared with Drop Tail.
# Writes runs/suite-rfc7928 with report.html.
narrows suite rfc7928 --queue pfifo --against codel --against pie

# A queue with other settings, and one with a name of its own.
narrows suite rfc7928 --queue codel --against "codel:target=1 ms" \\
    --against 'small={ kind = "red", limit = "60 kB" }'

# Three seeds and short runs of two sections.
narrows suite rfc7928 --queue fq-codel --against cake --quick \\
    --section 5.1 --section 8.2
"""
EXAMPLES += EXIT_CODES


def command(
    queue: QueueOption,
    against: Against = None,
    out: Annotated[Path | None, out_option("rfc7928")] = None,
    seeds: Annotated[int | None, seeds_option("scenario")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="3 seeds, and runs of a third of the length.")
    ] = False,
    section: Annotated[
        list[str] | None,
        option("NUMBER", "Sections to run, such as 5.1 or 8; may be repeated. [default: all]"),
    ] = None,
    ecn: Annotated[bool, typer.Option("--ecn", help="All TCP senders negotiate ECN.")] = False,
    plugin: Plugins = None,
    plots: PlotFiles = None,
    workers: Workers = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run the tests of RFC 7928 for AQMs, and write a report with a part for each section."""
    from narrows.suites.output import print_suite, write
    from narrows.suites.rfc7928 import pictures, rfc7928

    kinds = plot_files(plots, USUAL_PLOT_FILES)
    folder = out or Path("runs") / "suite-rfc7928"
    with shown("suite rfc7928", quiet=quiet) as update:
        run = rfc7928(
            [queue, *(against or ())],
            out=folder,
            seeds=seeds,
            quick=quick,
            sections=section or (),
            ecn=ecn,
            plugins=plugin or (),
            workers=workers,
            progress=lambda at: update(at.share, at.words),
        )
    try:
        write(run, folder, kinds, pictures(run, plugin or ()))
    finally:
        print_suite(run, sys.stdout, as_json=json_output)
    return end_suite(run, folder, quiet=quiet)
