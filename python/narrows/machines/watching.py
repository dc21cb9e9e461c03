"""Records this machine's queues that belong to links of a scenario, at the run's times."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narrows.backends.interrupts import held
from narrows.backends.sim import host_facts
from narrows.errors import argument
from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.machines.parts import Part, Parts
from narrows.machines.record import SAMPLES, Record, check_target
from narrows.machines.secret import checked
from narrows.machines.session import Report, Session
from narrows.machines.working import WAIT_S
from narrows.monitor import Watch
from narrows.results import Run


def watch(
    parts: Parts,
    node: str,
    links: Mapping[str, str],
    lab: Lab,
    out: Path,
    *,
    secret: str,
    report: Report,
    rate: float = 10.0,
    wait_s: float = WAIT_S,
) -> Record:
    """Watches until the run ends, and leaves a record.

    Args:
        parts: The parts of the scenario.
        node: The node of this machine.
        links: For each watched link, its queue. The key is the link's name in the scenario with its
            direction; the value is as in `narrows monitor` (`eth0`, `eth0/10:`).
        lab: The machines.
        out: The record's folder, which must not exist yet.
        secret: What all machines of the run know, and nobody else (`secret.make`).
        report: Called with what the part is waiting for.
        rate: Samples a second.
        wait_s: Seconds to wait for the conducting machine.

    Raises:
        MachineError: There is no such link or queue, nobody listens, or the conductor refuses this
            part.
    """
    secret = checked(secret, "`secret`")
    known = [link["name"] for link in parts.plan["links"]]
    for link in links:
        if link not in known:
            raise MachineError(
                f"{argument('links')} {link}: no such link; hint: one of {', '.join(known)}"
            )
    check_target(out)
    devices = {queue.partition("/")[0] for queue in links.values()}
    watching = Watch(devices.pop() if len(devices) == 1 else None, rate=rate)
    for queue in links.values():
        if queue not in watching.queues:
            there = ", ".join(watching.queues)
            raise MachineError(
                f"{argument('links')} ..={queue}: no such queue; hint: one of {there}"
            )
    part = Part("monitor", node)
    with Session(parts, part, lab, secret, wait_s=wait_s, report=report) as session:
        begins = session.start()
        started = datetime.now(UTC)
        stopped = _watch(watching, begins, float(parts.job["duration_s"]), session)
        if stopped == "interrupted":
            session.tell("interrupted")
        report("measuring the clocks again")
        run = watching.run()
        shift = watching.origin - begins
        return _record(parts, part, session, run, links, stopped, started, shift, watching, out)


def _watch(watching: Watch, begins: float, duration_s: float, session: Session) -> str:
    """Watches until the end of the run, and returns why it ended."""
    with held() as interrupts:
        while time.monotonic() < begins:
            time.sleep(min(0.05, max(0.0, begins - time.monotonic())))
            if interrupts.take():
                return "interrupted"
        for _ in watching.readings(duration_s):
            stopped = session.stopped()
            if stopped is not None or interrupts.take():
                return stopped or "interrupted"
    return "end"


def _record(
    parts: Parts,
    part: Part,
    session: Session,
    run: Run,
    links: Mapping[str, str],
    stopped: str,
    started: datetime,
    shift: float,
    watching: Watch,
    out: Path,
) -> Record:
    framing = {link["name"]: link for link in parts.plan["links"]}
    queues: dict[str, list[Any]] = {}
    wires: dict[str, list[Any]] = {}
    for link, queue in links.items():
        _add(queues, run.queues, queue, link, shift)
        _add(wires, run.links, queue.partition("/")[0], link, shift)
    if wires:
        # The kernel counts Ethernet's header; the scenario counts the whole frame on the wire.
        wires["bytes"] = [
            bytes_ + packets * (framing[link]["framing"]["overhead"] - 14)
            for link, packets, bytes_ in zip(
                wires["link"], wires["packets"], wires["bytes"], strict=True
            )
        ]
        wires["busy_s"] = [
            min(t_s, 8.0 * bytes_ / framing[link]["rate"])
            for link, bytes_, t_s in zip(wires["link"], wires["bytes"], wires["t_s"], strict=True)
        ]
    record = Record(
        run=session.run,
        part=part,
        digest=parts.digest,
        seed=parts.seed,
        scenario=parts.scenario.written(),
        started=started.isoformat(timespec="seconds"),
        stopped=stopped,
        end_s=run.end_s + shift,
        late_s=max(0.0, shift),
        clock=session.clock(),
        host={**host_facts(), "queues": {link: watching.queues[q] for link, q in links.items()}},
        files={SAMPLES: {"queues": queues, "links": wires, "missed": watching.missed}},
    )
    record.save(out)
    return record


def _add(columns: dict[str, list[Any]], table: Any, queue: str, link: str, shift: float) -> None:
    """Adds a queue's rows under the link's name, at the run's times."""
    rows = {name: column.to_list() for name, column in _of(table, queue).items()}
    rows["link"] = [link] * len(rows["link"])
    rows["t_s"] = [t_s + shift for t_s in rows["t_s"]]
    for name, values in rows.items():
        columns.setdefault(name, []).extend(values)


def _of(table: Any, queue: str) -> Mapping[str, Any]:
    import polars as pl

    found: Mapping[str, Any] = table.filter(pl.col("link") == queue).to_dict()
    return found
