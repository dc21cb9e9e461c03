"""Resolver workers in a closed loop, and the server that they ask, over UDP.

Each attempt has a socket, a port and a number of its own, as a stub resolver's has; a reply that
comes after its attempt timed out is counted as late while the query's sockets are open: until the
worker's next query begins.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import system
from .dns_messages import query, reply
from .loop import READ, Loop

__all__ = ["Server", "Workers"]

_PORT = 53
_SO_TIMESTAMPNS = 35
_LARGEST = 65535


class Server:
    """Answers queries after a service time, all at once if need be."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._job = job
        self._loop = loop
        self._random = random.Random(seed)
        with system.inside(job["server"]):
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind((job["server_address"], _PORT))
        loop.watch(self._socket, READ, lambda _events: self._receive())

    def _receive(self) -> None:
        while True:
            try:
                asked, peer = self._socket.recvfrom(_LARGEST)
            except OSError:
                return
            if len(asked) < 12 or asked[2] & 0x80:
                continue
            wait = self._job["service_s"]
            if self._job["service_jitter_s"]:
                wait += self._random.expovariate(1.0 / self._job["service_jitter_s"])
            answer = reply(asked, self._job["reply_bytes"])
            if wait:
                self._loop.at(self._loop.now() + wait, partial(self._send, answer, peer))
            else:
                self._send(answer, peer)

    def _send(self, answer: bytes, peer: Any) -> None:
        try:
            self._socket.sendto(answer, peer)
        except OSError:
            # A queue at the host that is full: the reply is lost as on the way.
            return


class _Attempt:
    def __init__(self, number: int, sent_s: float, found: socket.socket, identity: int) -> None:
        self.number = number
        self.sent_s = sent_s
        self.socket = found
        self.identity = identity
        self.fate = "pending"
        self.received_s: float | None = None
        self.bytes_received = 0


class _Worker:
    def __init__(self, number: int) -> None:
        self.number = number
        self.index = -1
        self.attempts: list[_Attempt] = []
        self.done = True


class Workers:
    """Workers: each asks, waits, retries, and then asks the next."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._job = job
        self._loop = loop
        self._random = random.Random(seed)
        self._workers = [_Worker(number) for number in range(job["workers"])]
        self._total = job["warm_up"] + job["queries"]
        self._left = len(self._workers)
        self._next = 0
        # CLOCK_REALTIME, in which the kernel stamps packets, at the run's start.
        self._clock_origin: float = job["realtime_origin"]
        self.queries: list[dict[str, Any]] = []
        self.attempts: list[dict[str, Any]] = []

    def start(self) -> None:
        """Lets each worker begin at its time."""
        for worker in self._workers:
            when = self._job["start_s"] + self._random.random() * self._job["spread_s"]
            self._loop.at(when, partial(self._begin, worker))

    def finish(self) -> None:
        """Writes down the queries that are still open."""
        for worker in self._workers:
            if not worker.done:
                self._record(worker, None, 0)

    def _begin(self, worker: _Worker) -> None:
        self._close(worker)
        worker.index += 1
        worker.attempts = []
        worker.done = False
        self._ask(worker)

    def _ask(self, worker: _Worker) -> None:
        with system.inside(self._job["client"]):
            found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        found.bind((self._job["client_address"], 0))
        found.connect((self._job["server_address"], _PORT))
        identity = self._random.getrandbits(16)
        attempt = _Attempt(len(worker.attempts) + 1, self._loop.now(), found, identity)
        worker.attempts.append(attempt)
        index = worker.index
        self._loop.watch(found, READ, lambda _events: self._receive(worker, attempt))
        timeout = self._job["timeouts_s"][attempt.number - 1]
        self._loop.at(attempt.sent_s + timeout, lambda: self._time_out(worker, index, attempt))
        try:
            found.send(query(identity, self._job["query_bytes"]))
        except OSError:
            # The host's own queue is full, or it cannot resolve its neighbour: the attempt times
            # out, as a stub's does.
            return

    def _receive(self, worker: _Worker, attempt: _Attempt) -> None:
        try:
            data, ancillary, _, _ = attempt.socket.recvmsg(_LARGEST, 64)
        except OSError:
            return
        if len(data) < 12 or struct.unpack_from(">H", data)[0] != attempt.identity:
            return
        if attempt.received_s is not None:
            return
        attempt.received_s = self._stamp(ancillary)
        attempt.bytes_received = 28 + len(data)
        if worker.done or attempt is not worker.attempts[-1]:
            attempt.fate = "late"
            if worker.done:
                self._late(worker, attempt)
            return
        attempt.fate = "answered"
        self._record(worker, attempt.received_s, attempt.number)
        self._next_query(worker)

    def _time_out(self, worker: _Worker, index: int, attempt: _Attempt) -> None:
        if worker.index != index or worker.done or attempt is not worker.attempts[-1]:
            return
        attempt.fate = "timed-out"
        if attempt.number < len(self._job["timeouts_s"]):
            self._ask(worker)
            return
        self._record(worker, self._loop.now(), 0)
        self._next_query(worker)

    def _next_query(self, worker: _Worker) -> None:
        if worker.index + 1 >= self._total:
            self._left -= 1
            if not self._left:
                self._loop.stop()
            return
        pause = self._job["think_mean_s"]
        if pause:
            when = self._loop.now() + self._random.expovariate(1.0 / pause)
            self._loop.at(when, lambda: self._begin(worker))
        else:
            self._begin(worker)

    def _record(self, worker: _Worker, end_s: float | None, answered: int) -> None:
        worker.done = True
        number = len(self.queries)
        first, last = worker.attempts[0], worker.attempts[-1]
        took = None if not answered or end_s is None else end_s
        self.queries.append(
            {
                "worker": worker.number,
                "index": worker.index,
                "measured": worker.index >= self._job["warm_up"],
                "start_s": first.sent_s,
                "end_s": end_s,
                "attempt": answered,
                "attempts": len(worker.attempts),
                "response_ms": None if took is None else 1e3 * (took - first.sent_s),
                "rtt_ms": None if took is None else 1e3 * (took - last.sent_s),
                "late_answers": sum(attempt.fate == "late" for attempt in worker.attempts),
            }
        )
        for attempt in worker.attempts:
            self.attempts.append(
                {
                    "query": number,
                    "attempt": attempt.number,
                    "sent_s": attempt.sent_s,
                    "fate": attempt.fate,
                    "received_s": attempt.received_s,
                    "bytes_sent": 28 + self._job["query_bytes"],
                    "bytes_received": attempt.bytes_received,
                }
            )

    def _late(self, worker: _Worker, attempt: _Attempt) -> None:
        """A reply came after its query was over: the rows that are written are mended."""
        for row in reversed(self.queries):
            if row["worker"] == worker.number:
                row["late_answers"] += 1
                break
        for written in reversed(self.attempts):
            if written["sent_s"] == attempt.sent_s and written["attempt"] == attempt.number:
                written["fate"] = "late"
                written["received_s"] = attempt.received_s
                written["bytes_received"] = attempt.bytes_received
                break

    def _close(self, worker: _Worker) -> None:
        for attempt in worker.attempts:
            self._loop.forget(attempt.socket)
            attempt.socket.close()

    def _stamp(self, ancillary: list[tuple[int, int, bytes]]) -> float:
        """When the kernel took the packet from the device, on the run's clock."""
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= 16:
                stamp: tuple[int, int] = struct.unpack_from("qq", data)
                return (stamp[0] - self._clock_origin) + stamp[1] * 1e-9
        return self._loop.now()
