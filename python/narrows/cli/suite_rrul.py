"""`narrows suite rrul`: Flent's tests for any queue."""

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
# All tests; Flent draws the files in runs/suite-rrul/flent.
narrows suite rrul --queue fq-codel --against cake --against pfifo
flent -i runs/suite-rrul/flent/rrul-cake.flent.gz -p all_scaled -o cake.png

# One test on a line of your own.
narrows suite rrul --queue cake --test rrul_be --down "100 Mbit/s" \\
    --up "10 Mbit/s" --rtt "20 ms" --length "30 s"
"""
EXAMPLES += EXIT_CODES


def command(
    queue: QueueOption,
    against: Against = None,
    test: Annotated[
        list[str] | None,
        option(
            "TEST",
            "rrul, rrul_be, tcp_nup, tcp_ndown or voip; may be repeated. [default: all]",
        ),
    ] = None,
    down: Annotated[str, option("RATE", "The line's rate down. [default: 20 Mbit/s]")] = "",
    up: Annotated[str, option("RATE", "The line's rate up. [default: 20 Mbit/s]")] = "",
    rtt: Annotated[str, option("TIME", "The round trip of an empty line. [default: 50 ms]")] = "",
    length: Annotated[
        str, option("TIME", "How long the load lasts. [default: 60 s, with --quick 20 s]")
    ] = "",
    out: Annotated[Path | None, out_option("rrul")] = None,
    seeds: Annotated[int | None, seeds_option("test")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="3 seeds, and a load of 20 s.")] = False,
    plugin: Plugins = None,
    workers: Workers = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run Flent's tests, and write a report and files that Flent draws."""
    from narrows.suites.output import print_suite, write
    from narrows.suites.rrul import QUICK, Line, keep, rrul

    given = {"up": up, "down": down, "rtt": rtt, "length": length or (QUICK if quick else "")}
    line = Line(**{name: text for name, text in given.items() if text})
    folder = out or Path("runs") / "suite-rrul"
    with shown("suite rrul", quiet=quiet) as update:
        run = rrul(
            [queue, *(against or ())],
            tests=test or (),
            line=line,
            out=folder,
            seeds=seeds,
            quick=quick,
            plugins=plugin or (),
            workers=workers,
            progress=lambda at: update(at.share, at.words),
        )
    try:
        write(run, folder)
        keep(run, folder / "flent", plugin or ())
    finally:
        print_suite(run, sys.stdout, as_json=json_output)
    return end_suite(run, folder, quiet=quiet)
