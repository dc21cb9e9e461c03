"""`narrows suite l4s`: L4S beside classic traffic, for any queue and control."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.ending import EXIT_CODES
from narrows.cli.failure import Exit
from narrows.cli.options import Json, Plugins, Quiet, Workers, option
from narrows.cli.suites import Against, QueueOption, end_suite, out_option, seeds_option
from narrows.progress import shown

EXAMPLES = """\
# Prague beside CUBIC in DualPI2 and in other queues.
narrows suite l4s --queue dualpi2 --against fq-codel --against "pie:ecn=true"

# Another control in Prague's place.
narrows suite l4s --queue dualpi2 --control dctcp --classic reno --quick
"""
EXAMPLES += EXIT_CODES


def command(
    queue: QueueOption,
    against: Against = None,
    control: Annotated[
        str, option("NAME", "The congestion control with ECN-capable packets. [default: prague]")
    ] = "prague",
    classic: Annotated[
        str, option("NAME", "The congestion control beside it, without ECN. [default: cubic]")
    ] = "cubic",
    out: Annotated[Path | None, out_option("l4s")] = None,
    seeds: Annotated[int | None, seeds_option("scenario")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="3 seeds, and shorter runs.")] = False,
    plugin: Plugins = None,
    workers: Workers = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run the tests of L4S's coexistence with classic traffic, and write a report."""
    from narrows.suites.l4s import l4s
    from narrows.suites.output import print_suite, write

    folder = out or Path("runs") / "suite-l4s"
    with shown("suite l4s", quiet=quiet) as update:
        run = l4s(
            [queue, *(against or ())],
            control=control,
            classic=classic,
            out=folder,
            seeds=seeds,
            quick=quick,
            plugins=plugin or (),
            workers=workers,
            progress=lambda at: update(at.share, at.words),
        )
    try:
        write(run, folder)
    finally:
        print_suite(run, sys.stdout, as_json=json_output)
    return end_suite(run, folder, quiet=quiet)
