"""Plays a part on this machine: the kernel backend's agent and narrows-live, without a network."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narrows.backends import BackendError
from narrows.backends.interrupts import held
from narrows.backends.kernel import live
from narrows.backends.kernel.available import Kernel
from narrows.backends.kernel.guest import conduct
from narrows.backends.kernel.workspace import workspace
from narrows.backends.sim import host_facts
from narrows.machines import tcp
from narrows.machines.control import listening
from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.machines.parts import Given, Part, Parts
from narrows.machines.record import Record, check_target, gathered
from narrows.machines.secret import checked
from narrows.machines.session import Report, Session

WAIT_S = 60.0
"""Seconds to wait for the conducting machine."""

_HERE = Kernel("host", "this machine", None, virtual=False, hint="see docs/machines.md")


def work(
    parts: Parts,
    part: Part,
    lab: Lab,
    out: Path,
    *,
    secret: str,
    report: Report,
    wait_s: float = WAIT_S,
    setting: tcp.Setting = tcp.Setting.CHECK,
) -> Record:
    """Runs a part of a scenario, and leaves its record.

    Ctrl-C ends the run for every machine; all keep what they have measured so far.

    Args:
        parts: The parts of the scenario.
        part: This part: `serve`, `drive` or `resolve` at a node.
        lab: The machines.
        out: The record's folder, which must not exist yet.
        secret: What all machines of the run know, and nobody else (`secret.make`).
        report: Called with what the part is waiting for.
        wait_s: Seconds to wait for the conducting machine.
        setting: What to do about TCP settings that differ from the scenario's.

    Raises:
        MachineError: A port is in use, nobody listens, or the conductor refuses this part.
    """
    secret = checked(secret, "`secret`")
    given = parts.of(part, lab)
    check_target(out)
    _try(given)
    with (
        Session(parts, part, lab, secret, wait_s=wait_s, report=report) as session,
        tcp.held(setting, parts.settings(part), parts.metrics(part, lab)) as differs,
    ):
        begins = session.start()
        started = datetime.now(UTC)
        done = _conduct(parts, given, begins, session)
        stopped = session.stopped() or done["stopped"]
        if stopped == "dns-done":
            session.tell("done")
        elif stopped == "interrupted":
            session.tell("interrupted")
        report("measuring the clocks again")
        record = Record(
            run=session.run,
            part=part,
            digest=parts.digest,
            seed=parts.seed,
            scenario=parts.scenario.written(),
            started=started.isoformat(timespec="seconds"),
            stopped=stopped,
            end_s=float(done["end_s"]),
            late_s=done["late_s"],
            clock=session.clock(),
            differs=differs,
            host=host_facts(),
            files=done["files"],
        )
    record.save(out)
    return record


def _conduct(parts: Parts, given: Given, begins: float, session: Session) -> dict[str, Any]:
    # There are no namespaces, devices, queues or other parts of the network.
    nothing = {key: type(value)() for key, value in parts.job.items()}
    with held() as interrupts, workspace() as place:

        def looking(_share: float) -> None:
            if session.stopped() is not None:
                (place.folder / "stop").touch()

        try:
            job = {
                **nothing,
                "duration_s": parts.job["duration_s"],
                "origin_s": begins,
                "samples": {"queues": None, "links": None},
                "live": live.give(*given, place.folder),
            }
            done = conduct(_HERE, job, place, progress=looking, interrupts=interrupts)
            late = max(0.0, float((place.folder / "ready").read_text()))
            return {**done, "late_s": late, "files": gathered(place.folder)}
        except BackendError as error:
            raise MachineError(str(error)) from None
        except (OSError, ValueError, KeyError) as error:
            raise MachineError(f"the agent's results cannot be read ({error})") from None


def _try(given: Given) -> None:
    """Checks that narrows-live can play a part here, before the other machines wait for it.

    Raises:
        MachineError: It refuses the plan, or an address or a port is not free.
    """
    try:
        live.check(*given)
    except BackendError as error:
        found = re.match(r"([0-9.]+):(\d+): ", str(error))
        if found is not None:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                # It says what helps.
                listening(found[1], int(found[2]), kind=kind).close()
        raise MachineError(str(error)) from None
