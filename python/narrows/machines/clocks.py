"""The offset of another machine's clock from this machine's, and its uncertainty.

As in NTP (RFC 5905, section 8), this machine notes when it asks (t1) and when the answer arrives
(t4). The other machine notes when the question arrives (t2) and when it answers (t3). The other
clock is ahead by ((t2 - t1) + (t3 - t4)) / 2. The error of this offset is at most half of the round
trip, ((t4 - t1) - (t3 - t2)) / 2, whatever the delay in each direction. Of several exchanges, the
one with the shortest round trip counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

EXCHANGES = 24


def _since() -> float:
    """Seconds from 1970 to the monotonic clock's zero.

    The code reads the clocks one after the other, and a busy machine may take milliseconds in
    between. Of several readings, the quickest one counts.
    """
    readings = []
    for _ in range(EXCHANGES):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        readings.append((after - before, wall - (before + after) / 2.0))
    return min(readings)[1]


_SINCE = _since()


class Offset(NamedTuple):
    """How far another clock is ahead of this one."""

    offset_s: float
    uncertainty_s: float
    """The true offset differs from `offset_s` by at most this."""


def now() -> float:
    """Seconds since 1970 by this machine's clock, without jumps after the program's start."""
    return time.monotonic() + _SINCE


def measure(ask: Callable[[], tuple[float, float]], clock: Callable[[], float] = now) -> Offset:
    """Measures the offset of another clock.

    Args:
        ask: Asks the other machine; returns, by its clock, when the question came and the answer
            left.
        clock: This machine's clock.
    """
    found = []
    for _ in range(EXCHANGES):
        asked = clock()
        came, went = ask()
        answered = clock()
        offset = ((came - asked) + (went - answered)) / 2.0
        found.append(Offset(offset, max(0.0, ((answered - asked) - (went - came)) / 2.0)))
    return min(found, key=lambda each: each.uncertainty_s)
