"""Rows of exchanges as servers of known behaviour would give them."""

from __future__ import annotations

from typing import Any

RTT = 40.0


def udp(ms: float = RTT, **more: Any) -> dict[str, Any]:
    row = {**_row("udp"), "query_ms": ms, "first_byte_ms": ms, "total_ms": ms}
    return {**row, **more}


def tcp(
    connect: float | None = RTT, first: float = RTT, gap: float = 0.0, **more: Any
) -> dict[str, Any]:
    row = {
        **_row("tcp"),
        "connect_ms": connect,
        "first_byte_ms": first,
        "query_ms": first + gap,
        "total_ms": (connect or 0.0) + first + gap,
        "prefix": "joined",
        "reused": False,
    }
    return {**row, **more}


def unanswered(
    outcome: str, stage: str, connect: float | None = None, **more: Any
) -> dict[str, Any]:
    empty = {"first_byte_ms": None, "query_ms": None, "total_ms": None, "prefix": None}
    row = tcp(outcome=outcome, stage=stage) | empty | {"connect_ms": connect, "rcode": None}
    return {**row, **more}


def _row(transport: str) -> dict[str, Any]:
    return {
        "target": "192.0.2.1",
        "vantage": "here",
        "transport": transport,
        "outcome": "answered",
        "stage": None,
        "detail": None,
        "connect_ms": None,
        "secure_ms": None,
        "prefix": None,
        "query_retransmissions": None,
        "reused": None,
        "rcode": "NOERROR",
        "truncated": False,
    }


def whole(ms: float, connect: float | None = RTT) -> dict[str, Any]:
    """A reply over TCP as RIPE Atlas has it: with its last byte's time, without its first byte's.

    Args:
        ms: From the query to the last byte.
        connect: None as before 2019, when Atlas timed the connection and the query together.
    """
    times = {"first_byte_ms": None, "query_ms": None, "prefix": None, "connect_ms": connect}
    known = {} if connect is None else {"query_ms": ms}
    return tcp(total_ms=RTT + ms) | times | known
