"""What our server and the line do to a client; each client and case has an address."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """How queries to one address fare."""

    name: str
    udp: str = "answer"
    """answer, truncate, drop, closed (ICMP port unreachable), long (1200 bytes), format-error to
    EDNS, or warm: names that begin with `drop` are dropped, others answered."""
    tcp: str = "answer"
    """answer, refuse (RST), silent, close, reset, or lost (no SYN arrives)."""
    asks: str = "one"
    """one query; sequence: five, one after the other; together: ten at once, answered late; both:
    addresses of both families, where the client is a C library; warm: ten that are answered, then
    one that is dropped."""
    fragments: str = "whole"
    """Fragments of UDP replies: whole, cut (at 800 bytes), or lost (all but the first)."""
    watch: float = 20.0
    """Seconds for which the client is watched."""


CASES = (
    Case("answer"),
    Case("truncate", udp="truncate"),
    Case("drop", udp="drop"),
    Case("dead", udp="drop", tcp="lost"),
    Case("unreachable", udp="closed", tcp="refuse"),
    Case("refuse", udp="truncate", tcp="refuse"),
    Case("silent", udp="truncate", tcp="silent"),
    Case("close", udp="truncate", tcp="close"),
    Case("reset", udp="truncate", tcp="reset"),
    Case("lost", udp="truncate", tcp="lost"),
    Case("format-error", udp="format-error"),
    Case("cut", udp="long", fragments="cut"),
    Case("cut-lost", udp="long", fragments="lost"),
    Case("sequence", udp="truncate", asks="sequence"),
    Case("together", udp="truncate", asks="together"),
    Case("warm", udp="warm", tcp="lost", asks="warm"),
    Case("both", udp="truncate", asks="both"),
)
ROOT = Case("root", udp="refer", tcp="refuse")
"""The root, for resolvers that must start there: it refers to the server of each case."""
NUMBERS = {ROOT.name: 250} | {case.name: number for number, case in enumerate(CASES, 1)}


def address(client: int, case: Case) -> str:
    """Where the server stands for this client and case."""
    return f"10.53.{client}.{NUMBERS[case.name]}"


def zone(case: Case) -> str:
    """The zone that is asked for, without the last dot."""
    return f"{case.name}.test"


MTU = 800
"""The size at which replies are cut into fragments."""
LONG = 1150
"""Bytes of a reply that is cut: below what every client offers, above that MTU."""
LATE = 0.5
"""Seconds that the server takes for each query over TCP if several are asked together."""
