"""Finds connections that their receiver's buffer limits, and not the network.

A sender may have no more than the receiver's window in flight. If a round trip is long and the link
fast, that is less than the path holds: 3 MB a round trip of 100 ms are 252 Mbit/s, however fast the
link. Queue, ECN and congestion control then have no effect.
"""

from __future__ import annotations

import math

import polars as pl

from narrows.records.numbers import floats, row_floats
from narrows.results.parts import by_value, where

_SHARE = 0.5


def limited_by_receivers(flows: pl.DataFrame, *, windowed: bool = False) -> list[str]:
    """A sentence for each group with connections that were so limited for most of their time.

    Args:
        flows: As in `flows.parquet`.
        windowed: Whether the other metrics cover a declared window; these times never do.
    """
    found = []
    for group, own in by_value(flows, "group").items():
        # A comparison with NaN, which stands for null, is false.
        is_limited = row_floats(own, "rwnd_limited_s") > _SHARE * row_floats(own, "busy_s")
        if not is_limited.any():
            continue
        limited = where(own, is_limited)
        times = (limited.get_column(name) for name in ("rwnd_limited_s", "busy_s"))
        limited_s, busy_s = (math.fsum(floats(column)) for column in times)
        percent = 100 * limited_s / busy_s
        which = "it" if own.height == 1 else f"{limited.height} of {own.height} connections"
        found.append(
            f"{group}: its receiver's buffer limited {which} for {percent:.0f} % of the time "
            f"with data to send{' (in the whole run)' if windowed else ''}, and not the network; "
            f"hint: a larger traffic.{group}.tcp.receive_buffer"
        )
    return found
