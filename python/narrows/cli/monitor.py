"""`narrows monitor`: the queues of a running Linux machine, live and as a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from narrows.cli import machines as shared
from narrows.cli.failure import Exit, UserError, say
from narrows.cli.folders import free_folder
from narrows.cli.machines import At, Clock, Machines, SecretFile, Wait
from narrows.cli.options import (
    Json,
    Plots,
    Quiet,
    Seed,
    Settings,
    argument,
    lasting,
    option,
    plot_files,
    settings,
)
from narrows.cli.run_output import print_run, write_run_report

if TYPE_CHECKING:
    from narrows.machines import Lab, Parts

EXAMPLES = """\
# Ten samples a second of backlog, drops and marks, until Ctrl-C.
narrows monitor eth0

# For a minute, to compare it with a later runs/after.
narrows monitor eth0 --duration 60s --out runs/before

narrows monitor --json --duration 5s | jq .summary.queues

# On the router of a run on several machines: eth0 is a link of its
# scenario.
narrows monitor --scenario lab-scenario.toml --node router \\
    --machines lab.toml --link wan.forward=eth0
"""


def command(
    interface: Annotated[
        str | None,
        argument("INTERFACE", "The interface to watch. [default: all that have a queue]"),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, max=1000.0, metavar="HZ", help="Samples per second.")
    ] = 10.0,
    duration: Annotated[
        str | None,
        option("TIME", "How long to watch, such as 60s or 5min. [default: until Ctrl-C]"),
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "The run folder. [default: runs/monitor-INTERFACE-1, -2, ..]")
    ] = None,
    json_output: Json = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Also write plots and report.html.")
    ] = True,
    plots: Plots = None,
    scenario: Annotated[
        Path | None,
        option(
            "SCENARIO",
            "Watch during a run of this scenario on several machines, and write a record "
            "(docs/machines.md).",
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        option(
            "LINK=QUEUE",
            "With --scenario: the queue on this machine that is a link of the scenario, such "
            "as wan.forward=eth0; may be repeated.",
        ),
    ] = None,
    node: Annotated[
        str,
        typer.Option(metavar="NAME", help="With --scenario: the name of this machine."),
    ] = "router",
    machines: Machines = None,
    at: At = None,
    clock: Clock = None,
    wait: Wait = shared.WAIT,
    secret_file: SecretFile = None,
    set: Settings = None,
    seed: Seed = None,
    quiet: Quiet = False,
) -> Exit:
    """Watch the queues of this machine, without changing them, and write a run folder."""
    if scenario is not None:
        if interface is not None or duration is not None:
            raise UserError("--scenario says what and how long; hint: give --link LINK=QUEUE alone")
        plot_files(plots, written=False, needs="give it to narrows merge")
        wait_s = shared.waiting(wait)
        parts = shared.parts_of(scenario, settings(set), seed)
        lab = shared.lab_of(machines, at, clock)
        asked = _Asked(node, _links(link), secret_file, scenario, out)
        return _record(parts, lab, asked, rate=rate, wait_s=wait_s, quiet=quiet)
    from narrows.cli.monitor_screen import say_missed, watched
    from narrows.monitor import Watch
    from narrows.results.folder import check_target

    kinds = plot_files(plots, written=report, needs="leave out --no-report")
    folder = out or free_folder(Path("runs"), f"monitor-{interface or 'all'}")
    check_target(folder)
    seconds = None if duration is None else lasting("--duration", duration)
    if seconds is not None and seconds < 0.1:
        raise UserError(f"--duration {duration}: is shorter than 0.1 s; hint: such as 60s")
    watch = Watch(interface, rate=rate)
    result = watched(watch, seconds, quiet=quiet).save(folder)
    if report:
        write_run_report(result, folder, kinds)
    print_run(result, "json" if json_output else "text")
    if not quiet:
        say_missed(watch)
        say(f"wrote {folder}")
    return Exit.INTERRUPTED if result.status == "partial" else Exit.DONE


class _Asked(NamedTuple):
    """What the command line says about a part of a run."""

    node: str
    links: dict[str, str]
    secret_file: Path | None
    scenario: Path
    out: Path | None


def _record(
    parts: Parts, lab: Lab, asked: _Asked, *, rate: float, wait_s: float, quiet: bool
) -> Exit:
    """Watches as one of several machines."""
    from narrows.machines import Part, watch

    own = Part("monitor", asked.node)
    secret, tell = shared.secret_of(parts, own, lab, asked.secret_file, asked.scenario, quiet=quiet)
    folder = asked.out or free_folder(
        Path("records"), f"{parts.scenario.name}-monitor-{asked.node}"
    )
    record = watch(
        parts,
        asked.node,
        asked.links,
        lab,
        folder,
        secret=secret,
        report=tell,
        rate=rate,
        wait_s=wait_s,
    )
    return shared.ended(record, folder, quiet=quiet)


def _links(given: list[str] | None) -> dict[str, str]:
    """The queue of each link that `--link` names."""
    links: dict[str, str] = {}
    for text in given or ():
        name, equals, queue = text.partition("=")
        if not equals or not name or not queue:
            raise UserError(f"--link {text}: not LINK=QUEUE; hint: such as wan.forward=eth0")
        links[name] = queue
    if not links:
        raise UserError("--scenario needs --link LINK=QUEUE; hint: such as wan.forward=eth0")
    return links
