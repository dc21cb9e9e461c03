"""Runs a part's programs on this machine: the kernel backend's agent, without its own network."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narrows.backends import BackendError
from narrows.backends.interrupts import held
from narrows.backends.kernel.available import Kernel
from narrows.backends.kernel.guest import conduct
from narrows.backends.kernel.software import complete
from narrows.backends.kernel.workspace import workspace
from narrows.backends.sim import host_facts
from narrows.machines import tcp
from narrows.machines.control import listening
from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.machines.parts import Part, Parts
from narrows.machines.record import Record, check_target, gathered
from narrows.machines.secret import checked
from narrows.machines.session import Session, Told

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
    told: Told,
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
        told: Called with what the part is waiting for.
        wait_s: Seconds to wait for the conducting machine.
        setting: What to do about TCP settings that differ from the scenario's.

    Raises:
        MachineError: A port is in use, nobody listens, or the conductor refuses this part.
    """
    secret = checked(secret, "`secret`")
    job = parts.of(part, lab)
    check_target(out)
    _try_ports(job)
    with (
        Session(parts, part, lab, secret, wait_s=wait_s, told=told) as session,
        tcp.held(setting, parts.settings(part), parts.metrics(part, lab)) as differs,
    ):
        begins = session.start()
        started = datetime.now(UTC)
        done = _conduct({**job, "origin_s": begins}, session)
        stopped = session.stopped() or done["stopped"]
        if stopped == "dns-done":
            session.tell("done")
        elif stopped == "interrupted":
            session.tell("interrupted")
        told("measuring the clocks again")
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


def _conduct(job: Mapping[str, Any], session: Session) -> dict[str, Any]:
    with held() as interrupts, workspace() as place:
        try:
            complete(job["dns_servers"])
        except BackendError as error:
            raise MachineError(str(error)) from None

        def looking(_share: float) -> None:
            if session.stopped() is not None:
                (place.folder / "stop").touch()

        try:
            done = conduct(_HERE, job, place, progress=looking, interrupts=interrupts)
            late = max(0.0, float((place.folder / "ready").read_text()))
            return {**done, "late_s": late, "files": gathered(place.folder)}
        except BackendError as error:
            raise MachineError(str(error)) from None
        except (OSError, ValueError, KeyError) as error:
            raise MachineError(f"the agent's results cannot be read ({error})") from None


def _try_ports(job: Mapping[str, Any]) -> None:
    """Checks that the ports at which the agent will listen are free.

    Raises:
        MachineError: A port is not free.
    """
    wanted = {
        (flow["acceptor_address"], group["port"], socket.SOCK_STREAM)
        for group in job["bulk"]
        for flow in group["flows"]
        if flow["acceptor"] is not None
    }
    for server in job["dns_servers"]:
        for address in server["addresses"]:
            wanted.add((address, server["port"], socket.SOCK_DGRAM))
            if server["tcp"] is not None:
                wanted.add((address, server["port"], socket.SOCK_STREAM))
                if server["tcp"]["tls"] is not None:
                    wanted.add((address, server["tcp"]["tls"]["port"], socket.SOCK_STREAM))
    for address, port, kind in sorted(wanted):
        listening(address, port, kind=kind).close()
