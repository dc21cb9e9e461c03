"""Streams of datagrams at a rate, and probes that are answered, over UDP.

Both ends of a stream are in one process, so that what arrived is known at both. A datagram that is
not there `LOST_S` before the end of the run counts as lost; where, nobody knows.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import system
from .loop import READ, Loop

__all__ = ["LEAST_BYTES", "Probers", "Streams"]

LOST_S = 5.0
LEAST_BYTES = 28 + 16
"""An IP packet with its headers and what is written into each: stream, number, when it was sent."""

_HEADERS = 28
_MARK = struct.Struct(">IId")


class _Sender:
    """Sends datagrams of one stream at their times."""

    def __init__(self, group: _Group, number: int, told: Mapping[str, Any]) -> None:
        self.group = group
        self.number = number
        self.told = told
        self.count = 0
        self.random = random.Random(f"{group.seed} {number}")
        with system.inside(told["sender"]):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind((told["sender_address"], 0))
        self.socket.connect((told["receiver_address"], group.job["port"]))
        self._due: float = told["start_s"]
        group.loop.at(self._due, self._send)

    def _send(self) -> None:
        job, stop = self.group.job, self.told["stop_s"]
        now = self.group.loop.now()
        if stop is not None and now >= stop:
            return
        self.group.on_sent(self, now)
        payload = _MARK.pack(self.number, self.count, now)
        self.count += 1
        with contextlib.suppress(OSError):
            # A host's own queue that is full loses the datagram as one on the way does.
            self.socket.send(payload.ljust(job["packet_bytes"] - _HEADERS, b"\0"))
        if job["packets"] is not None and self.count >= job["packets"]:
            return
        gap = job["gap_s"]
        self._due += self.random.expovariate(1.0 / gap) if job["poisson"] else gap
        self.group.loop.at(self._due, self._send)


class _Group:
    """What streams and probers share: senders, and sockets that receive."""

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
        self.senders = [_Sender(self, number, told) for number, told in enumerate(job["streams"])]

    def on_sent(self, sender: _Sender, now: float) -> None:
        """A sender is about to send its next datagram."""
        raise NotImplementedError

    def on_received(self, number: int, count: int, sent_s: float) -> None:
        """A datagram of a stream arrived."""
        raise NotImplementedError

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
            self.on_received(number, count, sent_s)
            if self.job["answers"]:
                with contextlib.suppress(OSError):
                    found.sendto(data, peer)


class Streams(_Group):
    """Streams that nobody answers: a row for each period in which one sent something."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._rows: dict[tuple[int, int], dict[str, Any]] = {}
        self._highest = [-1] * len(job["streams"])
        self._transit: list[float | None] = [None] * len(job["streams"])
        self._jitter = [0.0] * len(job["streams"])
        super().__init__(job, loop, seed)

    def on_sent(self, sender: _Sender, now: float) -> None:
        """Counts it in its period."""
        row = self._row(sender.number, now)
        row["sent_packets"] += 1

    def on_received(self, number: int, count: int, sent_s: float) -> None:
        """Counts it in the period in which it was sent."""
        row = self._row(number, sent_s)
        delay = self.loop.now() - sent_s
        row["received_packets"] += 1
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
            known = (index + 1) * period <= end - LOST_S
            length = self.job["packet_bytes"]
            found.append(
                {
                    "group": self.job["group"],
                    "stream": number,
                    "t_s": index * period,
                    "period_s": period,
                    **row,
                    "sent_bytes": sent * length,
                    "received_bytes": received * length,
                    "lost_packets": sent - received if known else 0,
                    "delay_mean_ms": sum(delays) / len(delays) if delays else None,
                    "delay_min_ms": min(delays, default=None),
                    "delay_max_ms": max(delays, default=None),
                }
            )
        return found

    def _row(self, number: int, sent_s: float) -> dict[str, Any]:
        return self._rows.setdefault(
            (number, int(sent_s // self.job["period_s"])),
            {
                "sent_packets": 0,
                "received_packets": 0,
                "reordered_packets": 0,
                "delays": [],
                "jitter_ms": None,
            },
        )


class Probers(_Group):
    """Probes that are answered at once by datagrams of their length: a row for each."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._rows: list[list[dict[str, Any]]] = [[] for _ in job["streams"]]
        super().__init__(job, loop, seed)
        for sender in self.senders:
            loop.watch(sender.socket, READ, partial(self._answered, sender))

    def on_sent(self, sender: _Sender, now: float) -> None:
        """A row."""
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

    def on_received(self, number: int, count: int, sent_s: float) -> None:
        """It arrived, and is answered."""
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

    def _answered(self, sender: _Sender, _events: int) -> None:
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
