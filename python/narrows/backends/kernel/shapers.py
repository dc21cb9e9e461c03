"""Shapers, which ask a queue for packets at the link's rate, as tc(8)'s words.

Source: net/sched/sch_htb.c (`htb_class_mode`, `htb_charge_class`), sch_tbf.c (`tbf_dequeue`) of
Linux 6.1.

A transmitter asks its queue for the next packet when it has sent the last one. An HTB class with an
almost empty bucket does the same: it may send while it has no debt, and sending puts it into debt.
The token bucket `tbf` differs: it first peeks at the next packet and then waits for tokens. CoDel,
FQ-CoDel, PIE, SFQ and classes take a packet out of the queue at a peek. Packets that arrive while
it waits can no longer overtake it, which costs a short packet the time of a long one.

A ring of bytes is such a bucket, whose tokens are the ring's free bytes. Above FIFOs and RED, which
allow a peek, `tbf` models it exactly. Above the others, HTB takes its place and lets a packet go
when there is room for the longest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_LOOKED_AT = frozenset({"pfifo", "bfifo", "red"})
"""Disciplines whose `peek` leaves the packet where it is."""

_QUANTUM = 200_000
"""The quantum of the only class; its turn never ends."""


def commands(
    device: str, stab: str, direction: Mapping[str, Any], ring: int, stall: int
) -> Sequence[str]:
    """The commands that make `1:1`, the parent of the queue.

    Args:
        device: The device.
        stab: The arguments of a size table; empty for none.
        direction: A direction of a link, as in the plan.
        ring: Bytes of the ring below the queue; 0 for no ring.
        stall: Bytes that may leave at once after the machine has stalled.
    """
    framing, rate = direction["framing"], direction["rate"]
    words = ""
    beyond = framing["overhead"] - framing["queue_overhead"]
    if beyond > 0 or framing["min"]:
        words = f" overhead {max(beyond, 0)} mpu {framing['min']}"
    frame = max(direction["mtu"] + framing["overhead"], framing["min"])
    start = f"qdisc add dev {device} root handle 1: {stab}"
    if ring and next(iter(direction["queue"])) in _LOOKED_AT:
        bucket = max(ring, frame) + stall
        return [f"{start}tbf rate {rate}bit burst {bucket} limit 10000000{words}"]
    # tc accepts no empty bucket.
    bucket = max(1, ring - frame) + stall
    return [
        f"{start}htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit "
        f"burst {bucket} cburst {bucket} quantum {_QUANTUM}{words}",
    ]
