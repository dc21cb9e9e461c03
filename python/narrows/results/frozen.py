"""Queues that came to a standstill: they mark packets with ECN and let nothing else through.

As soon as its average is above `max`, RED with ECN drops every packet that it cannot mark. Enough
connections with ECN can hold the average there forever with their smallest windows. RED then marks
all their packets, and drops DNS, SYNs and retransmissions. Linux 6.1 stays in that state as long as
nothing else happens. On an Ethernet, ARP ends it: RED cannot mark ARP replies either, so the
routers' neighbour entries fail, and with them the link. Linux asks again 15 to 45 s after an
answer, waits 5 s, and gives up after three probes a second apart (`net/core/neighbour.c`, Linux
6.1), so the state ends after `LONGEST_S` at the latest. A run that stays in it longer shows a world
without ARP.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from narrows.records.numbers import floats
from narrows.results.parts import by_value
from narrows.results.schema import DROPS, MARKS

LONGEST_S: Final = 60.0
"""A little longer than Linux's neighbour entries allow: 45 + 5 + 3 s."""

_SLOT_S: Final = 1.0
"""Length of a slot in seconds. Samples count packets that enter at one end and packets that leave
at the other; over a slot of this length, the two counts differ little."""

_UNMARKED: Final = 0.01
"""The share of admitted packets that may lack a mark, for the same reason."""


def standstills(queues: pl.DataFrame) -> list[str]:
    """A sentence for each queue that stood still for longer than `LONGEST_S`.

    Args:
        queues: Samples of monitored queues, as in `queues.parquet`.
    """
    found = []
    for link, samples in by_value(queues, "link").items():
        longest = _longest(samples)
        if longest is not None and longest[1] - longest[0] > LONGEST_S:
            start, end = longest
            found.append(
                f"queue {link} stood still from {start:.0f} to {end:.0f} s: it marked every packet "
                "that it let in and dropped all others; on an Ethernet, ARP ends this within a "
                "minute (see the key neighbours of links)"
            )
    return found


def _longest(samples: pl.DataFrame) -> tuple[float, float] | None:
    """The longest standstill of a queue, in seconds; None if there was none."""
    counted = ("arrived_packets", *DROPS.values(), *MARKS.values())
    counters = samples
    if any(samples.get_column(name).null_count() for name in counted):
        counters = samples.drop_nulls(counted)
    if counters.height < 2:
        return None
    times = floats(counters.get_column("t_s"))
    slots = np.arange(times[0], times[-1], _SLOT_S)

    def change(*names: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        values = sum((floats(counters.get_column(name)) for name in names), np.zeros(times.size))
        return np.diff(np.interp(slots, times, values))

    dropped, marked = change(*DROPS.values()), change(*MARKS.values())
    let_in = change("arrived_packets") - dropped
    still = (marked > 0) & (marked >= (1 - _UNMARKED) * let_in)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(np.int8)))
    # Without drops there is no standstill: if all packets carry ECN, all may be marked forever.
    spans = [
        (float(slots[first]), float(slots[end]))
        for first, end in edges.reshape(-1, 2)
        if dropped[first:end].sum() > 0
    ]
    return max(spans, key=lambda span: span[1] - span[0], default=None)
