"""Queries and attempts of DNS, with the columns of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Query:
    """A worker's query, or one that arrived on its own."""

    __slots__ = ("answer", "attempts", "end_s", "index", "late", "measured", "start_s", "worker")

    def __init__(self, worker: int, index: int, start_s: float, *, measured: bool) -> None:
        self.worker = worker
        self.index = index
        self.start_s = start_s
        self.measured = measured
        self.end_s: float | None = None
        self.attempts: list[Attempt] = []
        self.answer: Attempt | None = None
        self.late = 0

    def row(self) -> dict[str, Any]:
        """A row of the table `queries`."""
        answer = self.answer
        # An arrival that found no idle worker has no attempts.
        start_s = self.attempts[0].sent_s if self.attempts else self.start_s
        took = None if answer is None else answer.received_s
        return {
            "worker": self.worker,
            "index": self.index,
            "measured": self.measured,
            "start_s": start_s,
            "end_s": self.end_s,
            "attempt": 0 if answer is None else answer.number,
            "attempts": len(self.attempts),
            "response_ms": None if took is None else 1e3 * (took - start_s),
            "rtt_ms": None if answer is None or took is None else 1e3 * (took - answer.sent_s),
            "late_answers": self.late,
        }


class Attempt:
    """An attempt at a query: one datagram, or one turn on a connection."""

    __slots__ = (
        "fate",
        "first_byte_s",
        "handshake_ms",
        "handshakes",
        "number",
        "query",
        "received",
        "received_s",
        "reused",
        "sent",
        "sent_s",
        "transport",
    )

    def __init__(self, query: Query, sent_s: float, transport: str) -> None:
        self.query = query
        query.attempts.append(self)
        self.number = len(query.attempts)
        self.sent_s = sent_s
        self.transport = transport
        self.fate = "pending"
        self.first_byte_s: float | None = None
        self.received_s: float | None = None
        self.reused = False
        self.handshakes = 0
        self.handshake_ms: float | None = None
        # Numbers of IP packets, and their bytes.
        self.sent = (0, 0)
        self.received = (0, 0)

    def is_late(self, now: float, first_byte_s: float) -> None:
        """Notes that its answer arrived after the attempt had ended."""
        self.fate = "late"
        self.first_byte_s, self.received_s = first_byte_s, now
        self.query.late += 1

    def row(self, number: int) -> dict[str, Any]:
        """A row of the table `attempts`; `number` is that of its query."""
        return {
            "query": number,
            "attempt": self.number,
            "sent_s": self.sent_s,
            "fate": self.fate,
            "first_byte_s": self.first_byte_s,
            "received_s": self.received_s,
            "transport": self.transport,
            "reused": self.reused,
            "handshake_round_trips": self.handshakes,
            "handshake_ms": self.handshake_ms,
            "packets_sent": self.sent[0],
            "bytes_sent": self.sent[1],
            "packets_received": self.received[0],
            "bytes_received": self.received[1],
        }


Told = Mapping[str, Any]
