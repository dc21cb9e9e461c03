"""Streams of datagrams at a rate, and probes with answers, over UDP.

Both ends of a stream are in one process, so it knows what was sent and what arrived. A datagram
that was sent more than `LOST_S` before the end of the run and has not arrived counts as lost.
Nobody knows where it was lost.
"""

from __future__ import annotations

import contextlib
import math
import random
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from . import system
from .draws import Draw
from .loop import READ, Loop

LOST_S = 5.0
LEAST_BYTES = 28 + 16
"""The shortest IP packet: its headers, and a mark with stream, number and time of sending."""

_HEADERS = 28
_MARK = struct.Struct(">IId")


class Times(Protocol):
    """When a stream sends."""

    def next(self) -> tuple[float, int] | None:
        """When the next packet is due, and its length; None: there is none."""


class _Rate:
    """When a stream with a rate sends. Its clock stands still while it is off, as in `udp.rs`."""

    def __init__(self, job: Mapping[str, Any], start_s: float, seed: str) -> None:
        self._gap_s: float = job["gap_s"]
        self._poisson: bool = job["poisson"]
        self._length: int = job["packet_bytes"]
        self._random = random.Random(seed)
        self._start_s = self._due = start_s
        self._count = 0
        self._turns = 1
        self._times: tuple[Draw, Draw] | None = None
        self._on_ends = math.inf
        if job["on_off"] is not None:
            on, off = (Draw(job["on_off"][key], f"{seed} {key}") for key in ("on", "off"))
            self._times = on, off
            self._on_ends = start_s + on.next(0)
        if self._poisson:
            self._due = self._after(start_s)

    def next(self) -> tuple[float, int]:
        """When the next packet is due, and its length."""
        due = self._due
        self._count += 1
        if self._poisson or self._times is not None:
            self._due = self._after(due)
        else:
            # Count from the start, so that rounding errors do not add up.
            self._due = self._start_s + self._count * self._gap_s
        return due, self._length

    def _after(self, at: float) -> float:
        gap = self._random.expovariate(1.0 / self._gap_s) if self._poisson else self._gap_s
        while self._times is not None and gap >= self._on_ends - at:
            gap -= self._on_ends - at
            on, off = self._times
            at = self._on_ends + off.next(self._turns - 1)
            self._on_ends = at + on.next(self._turns)
            self._turns += 1
        return at + gap


class _Listed:
    """When a stream of listed packets sends, as in `trace.rs`."""

    def __init__(self, job: Mapping[str, Any], start_s: float) -> None:
        self._packets = job["listed"]
        self._repeat_s: float | None = job["repeat_s"]
        self._start_s = start_s
        self._count = 0

    def next(self) -> tuple[float, int] | None:
        """When the next packet is due, and its length; None: there is none."""
        turn, place = divmod(self._count, len(self._packets))
        if turn and self._repeat_s is None:
            return None
        self._count += 1
        after_s, length = self._packets[place]
        return self._start_s + turn * (self._repeat_s or 0.0) + after_s, length


class Sender:
    """Sends the datagrams of one stream at their times."""

    def __init__(self, group: Group, number: int, told: Mapping[str, Any]) -> None:
        """Waits until the first datagram is due.

        Args:
            group: The group of the stream.
            number: The number of the stream.
            told: Both ends, and when it starts and stops.
        """
        self.group = group
        self.number = number
        self.told = told
        self.count = 0
        self._times = group.times(number, told["start_s"])
        with system.inside(told["sender"]):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind((told["sender_address"], 0))
        self.socket.connect((told["receiver_address"], group.job["port"]))
        self._wait()

    def _wait(self) -> None:
        found = self._times.next()
        if found is not None:
            due, length = found
            self.group.loop.at(due, partial(self._send, length))

    def _send(self, length: int) -> None:
        job, stop = self.group.job, self.told["stop_s"]
        now = self.group.loop.now()
        if stop is not None and now >= stop:
            return
        self.group.on_sent(self, now, length)
        payload = _MARK.pack(self.number, self.count, now)
        self.count += 1
        with contextlib.suppress(OSError):
            # The host's full queue loses the datagram, like a full queue on the way.
            self.socket.send(payload.ljust(length - _HEADERS, b"\0"))
        if job["packets"] is None or self.count < job["packets"]:
            self._wait()


class Group(ABC):
    """The base of streams, probers and calls: senders, and sockets that receive."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self.job = job
        self.loop = loop
        self.seed = seed
        self._sockets = []
        for namespace, address in sorted(
            {(told["receiver"], told["receiver_address"]) for told in job["streams"]}
        ):
            with system.inside(namespace):
                found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            found.bind((address, job["port"]))
            self._sockets.append(found)
            loop.watch(found, READ, partial(self._receive, found))
        self.senders = [Sender(self, number, told) for number, told in enumerate(job["streams"])]

    def times(self, number: int, start_s: float) -> Times:
        """When a stream sends."""
        if self.job["listed"] is not None:
            return _Listed(self.job, start_s)
        return _Rate(self.job, start_s, f"{self.seed} {number}")

    @abstractmethod
    def on_sent(self, sender: Sender, now: float, length: int) -> None:
        """Called when a sender is about to send its next datagram."""

    @abstractmethod
    def on_received(self, number: int, count: int, sent_s: float, length: int) -> None:
        """Called when a datagram of a stream has arrived."""

    def _receive(self, found: socket.socket, _events: int) -> None:
        while True:
            try:
                data, peer = found.recvfrom(65535)
            except OSError:
                return
            if len(data) < _MARK.size:
                continue
            number, count, sent_s = _MARK.unpack_from(data)
            if number >= len(self.senders) or count >= self.senders[number].count:
                continue
            self.on_received(number, count, sent_s, len(data) + _HEADERS)
            if self.job["answers"]:
                with contextlib.suppress(OSError):
                    found.sendto(data, peer)


class Streams(Group):
    """Streams without answers: a row for each period in which a stream sent something."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._rows: dict[tuple[int, int], dict[str, Any]] = {}
        self._highest = [-1] * len(job["streams"])
        self._transit: list[float | None] = [None] * len(job["streams"])
        self._jitter = [0.0] * len(job["streams"])
        super().__init__(job, loop, seed)

    def on_sent(self, sender: Sender, now: float, length: int) -> None:
        """Counts a datagram in its period."""
        row = self._row(sender.number, now)
        row["sent_packets"] += 1
        row["sent_bytes"] += length

    def on_received(self, number: int, count: int, sent_s: float, length: int) -> None:
        """Counts a datagram in the period in which it was sent."""
        row = self._row(number, sent_s)
        delay = self.loop.now() - sent_s
        row["received_packets"] += 1
        row["received_bytes"] += length
        row["delays"].append(1e3 * delay)
        if count < self._highest[number]:
            row["reordered_packets"] += 1
        self._highest[number] = max(self._highest[number], count)
        before = self._transit[number]
        if before is not None:
            # RFC 3550, 6.4.1.
            self._jitter[number] += (abs(delay - before) - self._jitter[number]) / 16.0
        self._transit[number] = delay
        row["jitter_ms"] = 1e3 * self._jitter[number]

    def rows(self) -> list[dict[str, Any]]:
        """The rows, by stream and time."""
        end, period = self.loop.now(), self.job["period_s"]
        found = []
        for (number, index), row in sorted(self._rows.items()):
            delays = row.pop("delays")
            sent, received = row["sent_packets"], row["received_packets"]
            start_s = self.job["streams"][number]["start_s"]
            known = start_s + (index + 1) * period <= end - LOST_S
            found.append(
                {
                    "group": self.job["group"],
                    "stream": number,
                    "t_s": start_s + index * period,
                    "period_s": period,
                    **row,
                    "lost_packets": sent - received if known else 0,
                    "delay_mean_ms": sum(delays) / len(delays) if delays else None,
                    "delay_min_ms": min(delays, default=None),
                    "delay_max_ms": max(delays, default=None),
                }
            )
        return found

    def _row(self, number: int, sent_s: float) -> dict[str, Any]:
        # Periods count from the start of the stream; the first packet may be due just before.
        since = max(0.0, sent_s - self.job["streams"][number]["start_s"])
        return self._rows.setdefault(
            (number, int(since // self.job["period_s"])),
            {
                "sent_packets": 0,
                "sent_bytes": 0,
                "received_packets": 0,
                "received_bytes": 0,
                "reordered_packets": 0,
                "delays": [],
                "jitter_ms": None,
            },
        )


class Probers(Group):
    """Probes, and immediate answers of the same length: a row for each probe."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._rows: list[list[dict[str, Any]]] = [[] for _ in job["streams"]]
        super().__init__(job, loop, seed)
        for sender in self.senders:
            loop.watch(sender.socket, READ, partial(self._answered, sender))

    def on_sent(self, sender: Sender, now: float, _length: int) -> None:
        """Adds a row for a probe."""
        self._rows[sender.number].append(
            {
                "group": self.job["group"],
                "prober": sender.number,
                "probe": sender.count,
                "sent_s": now,
                "there_ms": None,
                "rtt_ms": None,
            }
        )

    def on_received(self, number: int, count: int, sent_s: float, _length: int) -> None:
        """Answers a probe that has arrived."""
        self._rows[number][count]["there_ms"] = 1e3 * (self.loop.now() - sent_s)

    def rows(self) -> list[dict[str, Any]]:
        """The rows, by prober and probe."""
        end = self.loop.now()
        found = []
        for rows in self._rows:
            for row in rows:
                if row["rtt_ms"] is not None:
                    fate = "answered"
                elif row["sent_s"] > end - LOST_S:
                    fate = "pending"
                else:
                    fate = "probe-lost" if row["there_ms"] is None else "answer-lost"
                found.append({**row, "fate": fate, "lost_at": "", "reason": ""})
        return found

    def _answered(self, sender: Sender, _events: int) -> None:
        while True:
            try:
                data = sender.socket.recv(65535)
            except OSError:
                return
            if len(data) < _MARK.size:
                continue
            _, count, sent_s = _MARK.unpack_from(data)
            if count < len(self._rows[sender.number]):
                row = self._rows[sender.number][count]
                row["rtt_ms"] = 1e3 * (self.loop.now() - sent_s)
