"""Resolver workers: each asks, waits, retries, and then asks its next query.

Alternatively, queries arrive on their own, and each takes an idle worker. Workers behave like the
simulator's (crates/apps, dns/client.rs), but with sockets. Over UDP, they follow a schedule of
timeouts; over TCP or TLS, they try again as often as each kind of failure allows. They switch from
UDP to TCP after a truncated reply or silence. They go on until an answer arrives or they give the
query up.

They do not use the sockets of the crate `client`, as `narrows probe` does. That crate asks one
question at a time and blocks until the answer arrives. Here, thousands of workers share a loop, and
several of them may share a connection. The agent could not load the crate either, because it has
only the standard library.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .dns_arrivals import Arrivals
from .dns_connections import Connections
from .dns_messages import query
from .dns_rows import Attempt, Query, Told
from .dns_udp import Datagrams
from .loop import Loop


class _Worker:
    def __init__(self, number: int) -> None:
        self.number = number
        self.begun = 0
        self.query: Query | None = None
        self.message = b""
        self.gives_up_s: float | None = None
        # The attempt that the worker waits for; None while it pauses, or once it is done.
        self.attempt: Attempt | None = None
        self.over_udp = 0
        self.over_tcp = 0
        # Attempts over TCP since the last one over UDP.
        self.together = 0
        # Goes up whenever the time of an attempt starts again, so that older timers do nothing.
        self.turn = 0
        self.datagrams: Datagrams | None = None


class Workers:
    """The workers of a group."""

    def __init__(self, job: Told, loop: Loop, seed: str, done: Callable[[], None]) -> None:
        """Starts nothing yet.

        Args:
            job: The group's job, with `realtime_origin`: CLOCK_REALTIME at the run's start.
            loop: The loop of the process.
            seed: The seed of the random numbers.
            done: Called when every worker has had its last answer. Late replies may still come.
        """
        self._done = done
        self._job = job
        self._loop = loop
        self._random = random.Random(seed)
        self._messages = _Messages(job)
        self._workers = [_Worker(number) for number in range(job["workers"])]
        # With None, they ask until the run ends.
        self._total: int | None = job["queries"] and job["warm_up"] + job["queries"]
        self._left = len(self._workers)
        self._arrivals: Arrivals | None = None
        if job["arrivals"] is not None:
            self._arrivals = Arrivals(job, loop, random.Random(f"{seed} arrivals"), self._arrive)
        # Idle workers for arriving queries; the last one in the list is next.
        self._free = self._workers[::-1]
        self._queries: list[Query] = []
        self._connections: Connections | None = None
        if job["tcp"] is not None:
            self._connections = Connections(job, loop, self._random, self)
        if job["udp"] is not None:
            for worker in self._workers:
                worker.datagrams = Datagrams(job, loop, partial(self._on_datagram, worker))

    def start(self) -> None:
        """Lets each worker, or the first arrival, begin at its time."""
        if self._arrivals is not None:
            self._arrivals.start()
            return
        for worker in self._workers:
            when = self._job["start_s"] + self._random.random() * self._job["spread_s"]
            self._loop.at(when, partial(self._begin, worker))

    def rows(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Queries in the order in which they began, and their attempts."""
        if self._connections is not None:
            self._connections.finish()
        queries: list[dict[str, Any]] = []
        attempts: list[dict[str, Any]] = []
        for number, found in enumerate(self._queries):
            queries.append(found.row())
            attempts.extend(attempt.row(number) for attempt in found.attempts)
        return queries, attempts

    def on_written(self, attempt: Attempt) -> None:
        """Called when an attempt's query has left; the wait for its answer begins."""
        worker = self._workers[attempt.query.worker]
        if worker.attempt is attempt:
            self._expect(worker, self._job["tcp"]["answer_timeout_s"])

    def on_reply(self, attempt: Attempt, now: float, first_byte_s: float) -> None:
        """Called when an attempt's answer has arrived over a connection."""
        worker = self._workers[attempt.query.worker]
        if worker.attempt is not attempt:
            attempt.is_late(now, first_byte_s)
            return
        attempt.fate = "answered"
        attempt.first_byte_s, attempt.received_s = first_byte_s, now
        self._end(worker, attempt, now)

    def on_failed(self, attempt: Attempt, how: str) -> None:
        """Called when an attempt's connection is over."""
        worker = self._workers[attempt.query.worker]
        if worker.attempt is attempt:
            self._fail(worker, attempt, how)

    def _arrive(self, index: int) -> None:
        """Begins a query; if no worker is idle, nobody asks it."""
        if self._free:
            worker = self._free.pop()
            worker.begun = index
            self._begin(worker)
            return
        turned_away = Query(0, index, self._loop.now(), measured=index >= self._job["warm_up"])
        turned_away.end_s = turned_away.start_s
        self._queries.append(turned_away)

    def _begin(self, worker: _Worker) -> None:
        now = self._loop.now()
        if worker.datagrams is not None:
            worker.datagrams.begin()
        worker.query = Query(
            worker.number, worker.begun, now, measured=worker.begun >= self._job["warm_up"]
        )
        self._queries.append(worker.query)
        worker.message = self._messages.next(self._random, worker.begun)
        limit = self._job["gives_up_s"]
        worker.gives_up_s = None if limit is None else now + limit
        worker.over_udp = worker.over_tcp = worker.together = 0
        worker.begun += 1
        if self._job["udp"] is not None:
            self._ask_over_udp(worker)
        else:
            self._ask_over_tcp(worker)

    def _attempt(self, worker: _Worker, transport: str) -> Attempt:
        assert worker.query is not None, "it has begun"
        worker.attempt = Attempt(worker.query, self._loop.now(), transport)
        return worker.attempt

    def _ask_over_udp(self, worker: _Worker) -> None:
        timeouts: Sequence[float] = self._job["udp"]["timeouts_s"]
        # A query that returns from a connection to UDP has the last timeout again.
        timeout = timeouts[min(worker.over_udp, len(timeouts) - 1)]
        worker.over_udp += 1
        worker.together = 0
        attempt = self._attempt(worker, "udp")
        assert worker.datagrams is not None, "it asks over UDP"
        self._expect(worker, timeout)
        number = self._random.getrandbits(16)
        while worker.datagrams.is_taken(number):
            number = self._random.getrandbits(16)
        message = number.to_bytes(2, "big") + worker.message[2:_MOST_OVER_UDP]
        worker.datagrams.send(attempt, number, message)

    def _on_datagram(self, worker: _Worker, attempt: Attempt, now: float, cut: bool) -> None:
        if worker.attempt is not attempt:
            attempt.is_late(now, now)
            return
        attempt.first_byte_s = attempt.received_s = now
        attempt.fate = "truncated" if cut else "answered"
        if cut and self._job["udp"]["tcp_if_truncated"]:
            self._ask_over_tcp(worker)
        else:
            self._end(worker, attempt, now)

    def _ask_over_tcp(self, worker: _Worker) -> None:
        assert self._connections is not None, "it asks over TCP"
        worker.over_tcp += 1
        worker.together += 1
        attempt = self._attempt(worker, self._job["transport"])
        told = self._job["tcp"]
        established = self._connections.ask(worker.number, attempt, worker.message)
        if worker.attempt is attempt:
            key = "answer_timeout_s" if established else "connect_timeout_s"
            self._expect(worker, told[key])

    def _expect(self, worker: _Worker, timeout_s: float | None) -> None:
        """Waits for `timeout_s`, but at most until the worker gives the query up."""
        worker.turn += 1
        turn = worker.turn
        due = None if timeout_s is None else self._loop.now() + timeout_s
        if worker.gives_up_s is not None:
            due = worker.gives_up_s if due is None else min(due, worker.gives_up_s)

        def over() -> None:
            if worker.turn == turn and worker.attempt is not None:
                self._time_out(worker, worker.attempt)

        if due is not None:
            self._loop.at(due, over)

    def _time_out(self, worker: _Worker, attempt: Attempt) -> None:
        attempt.fate = "timed-out"
        if attempt.transport != "udp":
            assert self._connections is not None, "it has asked over TCP"
            self._connections.leave(attempt)
            self._fail(worker, attempt, "timed-out")
            return
        udp = self._job["udp"]
        if self._is_given_up(worker):
            self._end(worker, None, self._loop.now())
        elif worker.over_udp < len(udp["timeouts_s"]):
            self._ask_over_udp(worker)
        elif udp["tcp_if_silent"] and not worker.over_tcp:
            self._ask_over_tcp(worker)
        else:
            self._end(worker, None, self._loop.now())

    def _fail(self, worker: _Worker, attempt: Attempt, how: str) -> None:
        """Begins the next attempt after one over TCP has failed, or ends the query."""
        told = self._job["tcp"]
        attempt.fate = how
        if worker.over_tcp >= told["attempts"][how] or self._is_given_up(worker):
            self._end(worker, None, self._loop.now())
        elif told["udp_between"] and (
            how != "refused" or worker.together >= told["refused_together"]
        ):
            self._ask_over_udp(worker)
        else:
            self._ask_over_tcp(worker)

    def _is_given_up(self, worker: _Worker) -> bool:
        return worker.gives_up_s is not None and worker.gives_up_s <= self._loop.now()

    def _end(self, worker: _Worker, answer: Attempt | None, now: float) -> None:
        assert worker.query is not None, "it has begun"
        worker.query.end_s = now
        worker.query.answer = answer
        worker.attempt = None
        worker.turn += 1
        if self._arrivals is not None:
            self._free.append(worker)
            if self._arrivals.are_over and len(self._free) == len(self._workers):
                self._done()
            return
        if self._total is not None and worker.begun >= self._total:
            self._left -= 1
            if not self._left:
                self._done()
            return
        pause = self._job["think_mean_s"]
        if pause:
            when = self._loop.now() + self._random.expovariate(1.0 / pause)
            self._loop.at(when, lambda: self._begin(worker))
        else:
            self._begin(worker)


class _Messages:
    """The queries of a group, with the lengths that a scenario asks for."""

    def __init__(self, job: Told) -> None:
        told = job["exchanges"]
        payload = job["payload"]
        self._messages = [
            query(0, each["query"], payload, each["mark"], each["longest_name"]) for each in told
        ]
        self._in_turn: bool = job["in_turn"]
        self._weights = list(itertools.accumulate(each["weight"] for each in told))

    def next(self, numbers: random.Random, turn: int) -> bytes:
        """A worker's query number `turn`."""
        if self._in_turn:
            return self._messages[turn % len(self._messages)]
        return numbers.choices(self._messages, cum_weights=self._weights)[0]


_MOST_OVER_UDP = 65_507
