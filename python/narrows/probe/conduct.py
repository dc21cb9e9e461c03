"""A probe at work: a thread for each server and source, rounds of queries, and rows of tables.

Within a round, the transports take turns, so that no exchange disturbs the next. Times come from
the kernel's timestamps, so the load of this process does not affect them.
"""

from __future__ import annotations

import datetime
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from narrows import _core
from narrows.errors import argument
from narrows.probe.errors import ProbeError
from narrows.probe.persistent import persistent_connections
from narrows.probe.plan import Plan, Target
from narrows.probe.verdict import verdicts
from narrows.results import Measurement

Row = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far a probe is."""

    done: int
    """Queries that are over."""
    total: int
    latest: Mapping[str, Any]
    """The row of the exchange that ended last."""


def probe(plan: Plan, progress: Callable[[Progress], None] | None = None) -> Measurement:
    """Sends a plan's queries and returns the measurement.

    An interrupt (Ctrl-C) ends it early, and the measurement is then marked as partial.

    Args:
        plan: What to ask which servers; see `narrows.probe.plan`.
        progress: Called after each exchange, in the calling thread.

    Raises:
        ProbeError: A socket cannot be opened, or the query cannot be made.
    """
    _client_class()
    started, clock = datetime.datetime.now(datetime.UTC), time.monotonic()
    board = _Board()
    pairs = [(target, source) for target in plan.targets for source in plan.sources]
    # Turns are spread over the interval, so that vantage points do not disturb one another.
    workers = [
        _Worker(plan, target, source, board, plan.interval_s * turn / len(pairs))
        for turn, (target, source) in enumerate(pairs)
    ]
    stopped = "end"
    try:
        for worker in workers:
            worker.start()
        done = 0
        while any(worker.is_alive() for worker in workers) or board.new:
            for row in board.take():
                done += 1
                if progress is not None:
                    progress(Progress(done, plan.queries, row))
            if board.failures:
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    finally:
        board.stop.set()
        for worker in workers:
            if worker.ident is not None:
                worker.join()
    board.take()
    if board.failures:
        raise board.failures[0]
    measurement = Measurement.of_rows(
        "probe",
        exchanges=_numbered(board.exchanges, "exchange"),
        connections=sorted(board.connections, key=lambda row: int(row["connection"])),
        vantages=[
            {"vantage": name, "address": None if name == HERE else name}
            for name in sorted({row["vantage"] for row in board.exchanges})
        ],
        settings={**asdict(plan), "watched": all(worker.watched for worker in workers)},
        status="complete" if stopped == "end" else "partial",
        stopped=stopped,
        length_s=time.monotonic() - clock,
        narrows=_core.version,
        wall={"started": started.isoformat(timespec="seconds")},
        host=_host(),
    )
    findings: dict[str, Any] = {
        "verdicts": [
            verdict.document() for verdict in verdicts(measurement.exchanges, measurement.settings)
        ]
    }
    if plan.reuse:
        persistent = persistent_connections(
            measurement.exchanges, measurement.connections, exact=measurement.settings["watched"]
        )
        findings["kept"] = [part.document() for part in persistent]
    return replace(measurement, findings=findings)


HERE = "here"
"""The vantage point whose source address the system chooses."""


@dataclass
class _Board:
    """What the workers have found."""

    exchanges: list[Row] = field(default_factory=list)
    connections: list[Row] = field(default_factory=list)
    failures: list[ProbeError] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)
    opened: int = 0
    """How many connections there have been so far."""
    stop: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self) -> list[Row]:
        """Rows that are new since the last call; waits a little for one."""
        with self.changed:
            if not self.new and not self.failures:
                self.changed.wait(0.1)
            found, self.new = self.new, []
            return found


class _Worker(threading.Thread):
    """Asks one server from one source."""

    def __init__(
        self, plan: Plan, target: Target, source: str | None, board: _Board, wait_s: float
    ) -> None:
        super().__init__(name=f"probe {target.name}", daemon=True)
        self.plan, self.target, self.source, self.board = plan, target, source, board
        self.wait_s = wait_s
        self.watched = False
        self._numbers: dict[tuple[str, int], int] = {}

    def run(self) -> None:
        try:
            clients = {transport: self._client(transport) for transport in self.plan.transports}
            self.watched = "tcp" not in clients or clients["tcp"].watches
            self._rounds(clients)
        except ProbeError as error:
            self._fail(error)
        except Exception as error:
            what = f"a bug in narrows: {type(error).__name__}: {error}"
            self._fail(ProbeError(self.target.name, what))

    def _fail(self, error: ProbeError) -> None:
        with self.board.changed:
            self.board.failures.append(error)
            self.board.changed.notify()

    def _client(self, transport: str) -> _core.DnsClient:
        plan = self.plan
        try:
            return _core.DnsClient(
                self.target.address,
                self.target.port_for(transport),
                transport,
                source=self.source,
                timeout_s=plan.timeout_s,
                reuse=plan.reuse,
                watch=plan.watch,
                late_acknowledgements=plan.late_acknowledgements,
                tls_name=plan.tls_name,
            )
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            hint = "servers and sources must both be IPv4 or both IPv6" if self.source else ""
            raise ProbeError(self.target.name, f"cannot be asked ({words})", hint) from None

    def _rounds(self, clients: dict[str, _core.DnsClient]) -> None:
        begun = time.monotonic() + self.wait_s
        for number in range(self.plan.count):
            wait = begun + number * self.plan.interval_s - time.monotonic()
            if self.board.stop.wait(max(0.0, wait)):
                break
            for transport, client in clients.items():
                if self.board.stop.is_set():
                    break
                self._ask(client, transport, number)
        for transport, client in clients.items():
            client.close()
            self._note(client, transport, [])

    def _ask(self, client: _core.DnsClient, transport: str, number: int) -> None:
        plan = self.plan
        try:
            row = client.ask(
                plan.name,
                plan.kind,
                recursion=plan.recursion,
                edns=plan.edns,
                nsid=plan.nsid,
                retry=plan.retry if transport == "udp" else None,
            )
        except ValueError as error:
            raise ProbeError(
                f"{plan.name} {plan.kind}",
                str(error),
                f"{argument('name', '.')} {argument('kind', 'SOA')}",
            ) from None
        exchange = {
            **self._labels(transport),
            **row,
            "round": number,
            "qname": plan.name if plan.name.endswith(".") else f"{plan.name}.",
            "qtype": plan.kind.upper(),
        }
        self._note(client, transport, [exchange])

    def _note(self, client: _core.DnsClient, transport: str, exchanges: list[Row]) -> None:
        ended = [{**self._labels(transport), **row} for row in client.connections()]
        with self.board.changed:
            for row in [*exchanges, *ended]:
                if row.get("connection") is not None:
                    row["connection"] = self._number(transport, row["connection"])
            self.board.exchanges += exchanges
            self.board.connections += ended
            self.board.new += exchanges
            self.board.changed.notify()

    def _number(self, transport: str, own: int) -> int:
        """A connection's number among all, from the number that its client gave it."""
        key = (transport, own)
        if key not in self._numbers:
            self._numbers[key] = self.board.opened
            self.board.opened += 1
        return self._numbers[key]

    def _labels(self, transport: str) -> Row:
        return {
            "vantage": self.source or HERE,
            "target": self.target.name,
            "server": self.target.address,
            "port": self.target.port_for(transport),
            "family": self.target.family,
            "transport": transport,
        }


def _numbered(rows: list[Row], column: str) -> list[Row]:
    rows.sort(key=lambda row: row["started_s"])
    return [{column: number, **row} for number, row in enumerate(rows)]


def _client_class() -> None:
    if not hasattr(_core, "DnsClient"):
        raise ProbeError("probe", "works only on Linux", "import a capture made elsewhere")


def _host() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "profile": _core.profile,
    }
