"""`narrows monitor`: the queues of a running Linux machine, live and as a run folder."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, UserError, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet

EXAMPLES = """\
[bold]narrows monitor eth0[/bold] # until Ctrl-C: ten samples a second of backlog, drops and marks.

[bold]narrows monitor eth0 --duration 60 --out runs/before[/bold] # to compare with runs/after.

[bold]narrows monitor --json --duration 5 | jq .summary.queues[/bold]
"""


def command(
    interface: Annotated[
        str | None,
        typer.Argument(
            metavar="[INTERFACE]",
            help="Which; all that have a queue by default.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, max=1000.0, metavar="HZ", help="Samples a second.")
    ] = 10.0,
    duration: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="For how long; until Ctrl-C by default.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The run folder. [dim]default: runs/monitor-INTERFACE-1, -2, ..[/dim]",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write figures and report.html too.")
    ] = True,
    quiet: Quiet = False,
) -> Exit:
    """Watch the queues of this machine and leave a run folder; it reads only."""
    from narrows.errors import NarrowsError
    from narrows.monitor import Watch
    from narrows.results import summary_table
    from narrows.results.folder import check_target

    folder = out or free_folder(Path("runs"), f"monitor-{interface or 'all'}")
    check_target(folder)
    watch = Watch(interface, rate=rate)
    interrupted = False
    try:
        _show(watch, duration, live=not quiet and sys.stderr.isatty())
    except KeyboardInterrupt:
        interrupted = True
    result = watch.run(complete=not (interrupted and duration is not None))
    if result.queues.is_empty():
        raise UserError("no sample was taken; hint: let it run for a second")
    result = result.save(folder)
    try:
        if report:
            from narrows.report import write_report

            write_report(result, folder)
    except (NarrowsError, OSError) as error:
        raise UserError(f"{error}; the run itself is whole, in {folder}") from None
    if json_output:
        print(json.dumps(result.document(), indent=2))
    else:
        summary_table(result).print(sys.stdout)
    if not quiet:
        if watch.missed:
            say(f"{watch.missed} samples were not taken in time: the machine is busy")
        if watch.neighbours_failed:
            say(f"{watch.neighbours_failed} neighbours could not be resolved: see docs/monitor.md")
        say(f"wrote {folder}")
    return Exit.INTERRUPTED if result.status == "partial" else Exit.DONE


def _show(watch: object, duration: float | None, *, live: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    from narrows.monitor import Watch
    from narrows.monitor.screen import Screen

    assert isinstance(watch, Watch), "the command has made one"
    console = Console(stderr=True)
    screen = Screen(console.width)
    shown = Live(console=console, refresh_per_second=10, transient=True) if live else None
    with shown or contextlib.nullcontext():
        for readings in watch.readings(duration):
            if shown is not None:
                screen.add(readings)
                shown.update(screen.show())
