"""What the commands for runs on several machines share: options, and the work itself."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli.failure import Exit, UserError, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Quiet, ScenarioFile, Seed, Settings, lasting, option, settings

if TYPE_CHECKING:
    from narrows.machines import Lab, Part, Parts
    from narrows.machines.record import Record

Node = Annotated[
    str,
    typer.Option("--node", metavar="NAME", help="The scenario's node that runs on this machine."),
]

Machines = Annotated[
    Path | None,
    option(
        "FILE",
        "A TOML file whose table [machines] gives the address of each node's machine.",
        "--machines",
    ),
]

At = Annotated[
    list[str] | None,
    option(
        "NODE=ADDRESS",
        "Instead of --machines: the IPv4 address of a node's machine; repeat for each node.",
        "--at",
    ),
]

Clock = Annotated[
    str | None,
    option(
        "NODE",
        "The node whose machine has the reference clock; the others connect to it. "
        "[default: the first machine]",
    ),
]

Wait = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long to wait if the machine with the reference clock cannot be reached.",
    ),
]

SecretFile = Annotated[
    Path | None,
    option(
        "FILE",
        "A file with the secret of the run, which only you can read. Without it, narrows takes the "
        "environment variable NARROWS_SECRET; or the machine with the reference clock makes a "
        "secret and prints it, and the others ask for it.",
    ),
]

Tcp = Annotated[
    str,
    typer.Option(
        metavar="check|set|as-is",
        help="If this machine's TCP differs from the scenario's: check refuses to run, set changes "
        "sysctls for the run, as-is only records the differences.",
    ),
]

Out = Annotated[
    Path | None, option("DIR", "The record's folder. [default: records/NAME-ROLE-NODE-1, -2, ..]")
]

WAIT = "60s"
"""`narrows.machines.working.WAIT_S`, without loading what runs scenarios."""

_MOST_WAIT_S = 86_400.0


def waiting(text: str) -> float:
    """Returns the seconds of `--wait`.

    Raises:
        UserError: It is no time, or more than a day.
    """
    seconds = lasting("--wait", text)
    if seconds > _MOST_WAIT_S:
        raise UserError(f"--wait {text}: is more than a day; hint: such as --wait 10min")
    return seconds


def parts_of(scenario: Path, given: dict[str, str], seed: int | None) -> Parts:
    """The parts of a scenario file."""
    from narrows.machines import Parts
    from narrows.scenario import Scenario

    return Parts(Scenario.load(scenario, set=given), seed)


def lab_of(machines: Path | None, at: Sequence[str] | None, clock: str | None) -> Lab:
    """The machines that the options name."""
    from narrows.machines import Lab

    return Lab.read(machines, at or (), clock=clock)


def secret_of(
    parts: Parts,
    part: Part,
    lab: Lab,
    file: Path | None,
    scenario: Path,
    *,
    quiet: bool,
    common: Sequence[str] = (),
) -> tuple[str, Callable[[str], None]]:
    """The secret of the run, and what a part is to call with what it waits for.

    The secret is given, asked for, or made here. Then it is printed, even if `quiet`, as soon as
    the others can connect: when the part waits for the first time. `common` are the options that
    all parts must have alike.

    Raises:
        UserError: Nobody can be asked.
    """
    from narrows.machines import secret

    def report(line: str) -> None:
        while made:
            say(made.pop(0))
        if not quiet:
            say(line)

    made: list[str] = []
    found = secret.given(file)
    if found is None and parts.conducting(lab) == part:
        found = secret.make()
        made += [
            f"the secret of this run: {found}",
            "start the others; each asks for the secret:",
            *joining(parts, part, lab, scenario, common),
        ]
    elif found is None:
        if not sys.stdin.isatty():
            raise UserError(
                "the secret of the run is missing; hint: put what the command at "
                f"{lab.clock} has printed into --secret-file FILE or {secret.VARIABLE}"
            )
        prompt = f"the secret that the command at {lab.clock} has printed: "
        found = secret.checked(getpass.getpass(prompt), "the secret")
    return found, report


def joining(
    parts: Parts, own: Part, lab: Lab, scenario: Path, common: Sequence[str]
) -> Sequence[str]:
    """The commands of the other parts."""
    from narrows.machines import Part
    from narrows.machines.parts import ROLES

    lines = []
    for part in (*parts.all, *(Part("monitor", node) for node in lab.monitors)):
        watches = part.role == "monitor"
        words = [*ROLES[part.role].split(), *(["--scenario"] if watches else []), str(scenario)]
        words += ["--node", part.node, *(["--link", "LINK=QUEUE"] if watches else [])]
        if part != own:
            lines.append(f"  {part.node}$ {shlex.join([*words, *common])}")
    return lines


def part(role: str, what: str) -> Callable[..., Exit]:
    """Makes the command for a part of a run on several machines; `what` begins its help."""

    def command(
        scenario: ScenarioFile,
        node: Node,
        machines: Machines = None,
        at: At = None,
        clock: Clock = None,
        wait: Wait = WAIT,
        secret_file: SecretFile = None,
        tcp: Tcp = "check",
        set: Settings = None,
        seed: Seed = None,
        out: Out = None,
        quiet: Quiet = False,
    ) -> Exit:
        from narrows.machines import Part, work
        from narrows.machines.tcp import Setting

        seconds = waiting(wait)
        parts = parts_of(scenario, settings(set), seed)
        lab = lab_of(machines, at, clock)
        if tcp not in list(Setting):
            raise UserError(f"--tcp {tcp}: not known; hint: one of {', '.join(Setting)}")
        own = Part(role, node)
        parts.of(own, lab)  # so that nobody types a secret for a part that does not exist
        common = ["--machines", str(machines)] if machines else []
        for name, values in (("--at", at), ("--set", set)):
            common += [word for value in values or () for word in (name, value)]
        common += ["--clock", clock] if clock else []
        common += [] if seed is None else ["--seed", str(seed)]
        secret, tell = secret_of(parts, own, lab, secret_file, scenario, quiet=quiet, common=common)
        folder = out or free_folder(Path("records"), f"{parts.scenario.name}-{role}-{node}")
        record = work(
            parts,
            own,
            lab,
            folder,
            secret=secret,
            report=tell,
            wait_s=seconds,
            setting=Setting(tcp),
        )
        return ended(record, folder, quiet=quiet)

    command.__doc__ = (
        f"{what}\n\nIt waits until the machines of all other parts are ready (docs/machines.md)."
    )
    return command


def ended(record: Record, folder: Path, *, quiet: bool) -> Exit:
    """Prints how a part ended, and returns the exit code."""
    if not quiet:
        for each in record.differs:
            say(f"differs from the scenario: {each}")
        off_ms = 1e3 * record.clock.uncertainty_s
        say(f"ran for {record.end_s:.1f} s ({record.stopped}); clock error at most {off_ms:.3g} ms")
    print(folder, file=sys.stdout)
    return Exit.INTERRUPTED if record.stopped == "interrupted" else Exit.DONE
