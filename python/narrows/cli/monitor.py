"""`narrows monitor`: the queues of a running Linux machine, live and as a run folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli import machines as shared
from narrows.cli.failure import Exit, UserError, say
from narrows.cli.folders import free_folder
from narrows.cli.machines import At, Clock, Machines, Wait
from narrows.cli.options import Figures, Json, Quiet, Seed, Settings, figure_files, settings
from narrows.cli.run_output import print_run, write_run_report
from narrows.progress import lines

if TYPE_CHECKING:
    from narrows.machines import Lab, Parts
    from narrows.monitor import Reading, Watch

EXAMPLES = """\
# Until Ctrl-C: ten samples a second of backlog, drops and marks.
narrows monitor eth0

# To compare with runs/after.
narrows monitor eth0 --duration 60 --out runs/before

narrows monitor --json --duration 5 | jq .summary.queues

# On the router of a run on several machines: eth0 is a link of its scenario.
narrows monitor --scenario lab-scenario.toml --node router --machines lab.toml \\
    --link wan.forward=eth0
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
            help="The run folder. [default: runs/monitor-INTERFACE-1, -2, ..]",
            show_default=False,
        ),
    ] = None,
    json_output: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write figures and report.html too.")
    ] = True,
    figures: Figures = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO",
            help="Watch for a run of this scenario on several machines, and leave a record "
            "(docs/machines.md).",
            show_default=False,
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINK=QUEUE",
            help="With --scenario: the queue here that is a link of it, such as "
            "wan.forward=eth0; may be repeated.",
            show_default=False,
        ),
    ] = None,
    node: Annotated[
        str,
        typer.Option(metavar="NAME", help="With --scenario: what this machine is called."),
    ] = "router",
    machines: Machines = None,
    at: At = None,
    clock: Clock = None,
    wait: Wait = shared.WAIT_S,
    set: Settings = None,
    seed: Seed = None,
    quiet: Quiet = False,
) -> Exit:
    """Watch the queues of this machine and leave a run folder; nothing is changed."""
    if scenario is not None:
        if interface is not None or duration is not None:
            raise UserError("--scenario says what and how long; hint: give --link LINK=QUEUE alone")
        figure_files(figures, written=False, needs="give it to narrows merge")
        parts = shared.parts_of(scenario, settings(set), seed)
        lab = shared.lab_of(machines, at, clock)
        target = out or free_folder(Path("records"), f"{parts.scenario.name}-monitor-{node}")
        return _record(parts, lab, node, link, target, rate=rate, wait=wait, quiet=quiet)
    kinds = figure_files(figures, written=report, needs="leave out --no-report")
    from narrows.monitor import Watch
    from narrows.results.folder import check_target

    folder = out or free_folder(Path("runs"), f"monitor-{interface or 'all'}")
    check_target(folder)
    watch = Watch(interface, rate=rate)
    interrupted = False
    try:
        _show(watch, duration, quiet=quiet)
    except KeyboardInterrupt:
        interrupted = True
    result = watch.run(complete=not (interrupted and duration is not None))
    if result.queues.is_empty():
        raise UserError("no sample was taken; hint: let it run for a second")
    result = result.save(folder)
    if report:
        write_run_report(result, folder, kinds)
    print_run(result, json_output=json_output)
    if not quiet:
        say(_missed(watch.missed))
        if watch.neighbours_failed:
            say(f"{watch.neighbours_failed} neighbours could not be resolved: see docs/monitor.md")
        say(f"wrote {folder}")
    return Exit.INTERRUPTED if result.status == "partial" else Exit.DONE


def _record(
    parts: Parts,
    lab: Lab,
    node: str,
    given: list[str] | None,
    folder: Path,
    *,
    rate: float,
    wait: float,
    quiet: bool,
) -> Exit:
    """Watches as one of several machines."""
    from narrows.machines import watch

    links: dict[str, str] = {}
    for text in given or ():
        name, equals, queue = text.partition("=")
        if not equals or not name or not queue:
            raise UserError(f"--link {text}: not LINK=QUEUE; hint: such as wan.forward=eth0")
        links[name] = queue
    if not links:
        raise UserError("--scenario needs --link LINK=QUEUE; hint: such as wan.forward=eth0")
    told = (lambda _line: None) if quiet else say
    record = watch(parts, node, links, lab, folder, told=told, rate=rate, wait_s=wait)
    return shared.ended(record, folder, quiet=quiet)


def _missed(samples: int) -> str:
    """How many samples were missed, in words."""
    if not samples:
        return "no sample was missed"
    were = "1 sample was" if samples == 1 else f"{samples} samples were"
    return f"{were} not taken in time: the machine is busy"


def _show(watch: Watch, duration: float | None, *, quiet: bool) -> None:
    """Watches and shows it: on a terminal as it happens, elsewhere in a line every ten seconds."""
    samples = watch.readings(duration)
    if not quiet and sys.stderr.isatty():
        _show_live(samples)
        return
    tell = lines(f"monitor {watch.device or 'all interfaces'}")
    for readings in samples:
        if readings and not quiet:
            passed_s = readings[-1].t_s
            done = None if duration is None else min(1.0, passed_s / duration)
            tell(done, f"watched for {passed_s:.0f} s")


def _show_live(samples: Iterator[list[Reading]]) -> None:
    from rich.console import Console
    from rich.live import Live

    from narrows.monitor.screen import Screen

    console = Console(stderr=True)
    screen = Screen(console.width)
    with Live(console=console, refresh_per_second=10, transient=True) as shown:
        for readings in samples:
            screen.add(readings)
            shown.update(screen.show())
