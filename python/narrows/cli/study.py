"""`narrows study`: answers our own questions by many runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.complete import studies
from narrows.cli.ending import EXIT_CODES, ended
from narrows.cli.failure import Exit, UserError
from narrows.cli.options import Json, PlotFiles, Quiet, Workers, option, plot_files
from narrows.plot_files import USUAL_PLOT_FILES
from narrows.progress import shown

EXAMPLES = """\
# Every transport behind every queue of a home, a café and an operator,
# beside CUBIC downloads and alone, with 3 seeds.
narrows study dns-transport --quick

# Also beside other downloads, and with longer round trips, longer replies
# and paths that drop long datagrams, with 5 seeds. The same command again
# runs what is missing.
narrows study dns-transport

# A part of the study.
narrows study dns-transport --transport udp --transport tcp-kept \\
    --place home --json

# Lists all transports; the other options work the same way.
narrows study dns-transport --transport "?"
"""
EXAMPLES += EXIT_CODES


def _levels(what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        metavar="NAME",
        help=f"{what} to run, by name; may be repeated. [default: all]",
        show_default=False,
    )
    return option


def command(
    name: Annotated[
        str,
        typer.Argument(metavar="STUDY", help="The study: dns-transport.", autocompletion=studies),
    ],
    quick: Annotated[
        bool,
        typer.Option("--quick", help="3 seeds, and of the loads only CUBIC downloads and none."),
    ] = False,
    seeds: Annotated[
        int | None, option("N", "Runs of each cell. [default: 5, with --quick 3]", min=1, max=1000)
    ] = None,
    place: Annotated[list[str] | None, _levels("Places")] = None,
    transport: Annotated[list[str] | None, _levels("Transports")] = None,
    queue: Annotated[list[str] | None, _levels("Queues")] = None,
    load: Annotated[list[str] | None, _levels("Loads")] = None,
    path: Annotated[list[str] | None, _levels("Paths")] = None,
    round_trip: Annotated[list[str] | None, _levels("Round trips")] = None,
    reply: Annotated[list[str] | None, _levels("Lengths of replies")] = None,
    out: Annotated[
        Path | None,
        option(
            "DIR",
            "The study's folder. If it holds part of the study, only the rest is run. "
            "[default: runs/study-STUDY]",
        ),
    ] = None,
    plots: PlotFiles = None,
    workers: Workers = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Run a study and write its findings: tables, heat maps, and every cell."""
    from narrows.scenario.suggestions import suggestion
    from narrows.study import dns_transport, names
    from narrows.study.dns_transport.output import print_study, write

    if name not in names():
        hint = suggestion(name, names()) or f"one of {', '.join(names())}"
        raise UserError(f"{name!r} is not a study; hint: {hint}")
    kinds = plot_files(plots, USUAL_PLOT_FILES)
    factors = ("place", "transport", "queue", "load", "path", "round_trip", "reply")
    given = (place, transport, queue, load, path, round_trip, reply)
    folder = out or Path("runs") / f"study-{name}"
    with shown(name, quiet=quiet) as update:
        study = dns_transport(
            out=folder,
            quick=quick,
            seeds=seeds,
            levels={factor: names or [] for factor, names in zip(factors, given, strict=True)},
            workers=workers,
            progress=lambda at: update(at.share, at.words),
        )
    try:
        write(study, folder, kinds)
    finally:
        # This prints even if the disk is full.
        print_study(study, sys.stdout, as_json=json_output)
    return ended(
        study.status,
        study.failures,
        others="all are in study.json",
        wrote=folder / "report.html",
        interrupted=f" after {study.runs.height} runs; the same command continues",
        quiet=quiet,
    )
