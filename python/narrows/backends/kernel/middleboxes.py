"""From the plan's middleboxes to tc(8) filters, which drop packets before the queue.

Source: tc-u32(8), tc-mirred(8) of iproute2 6.1; net/sched/sch_ingress.c (`clsact`), act_mirred.c of
Linux 6.1. A filter at `clsact`'s egress sees a packet before the queue, as the simulator's
middlebox does. It redirects a packet that must not pass to a device that is down, where the kernel
drops it. So a guest needs neither netfilter nor another action.

u32 compares bits under a mask. So "longer than a limit" becomes blocks with a common prefix of
bits, like address ranges. IP headers have no options here.

Differences from the simulator:

- If a datagram comes in fragments, `drop_dns_above` drops only the first, which has the ports. The
  others pass, and the receiver discards them.
- `block_tcp_53 = "reject"` is refused: an answer needs netfilter, which the guest kernel lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

SINK = "sink"
"""The name of a device that is down, in each namespace with a middlebox."""

_KNOWN = {"drop_dns_above", "drop_fragments", "drop_too_big", "block_tcp_53", "drop_syn_data"}
_LONGEST = 65_535
_UDP_HEADER = 8
_IP_HEADER = 20
# RFC 791, 3.1: the 16 bits at byte 6 are flags and offset. These are "more fragments" and the
# bits of the offset.
_FRAGMENT_BITS = [1 << bit for bit in range(14)]


def commands(
    device: str, middlebox: Mapping[str, Any], refuse: Callable[[str, str], None]
) -> Iterator[str]:
    """The tc commands for a middlebox at the head of a link.

    Args:
        device: The device that has the link's queue.
        middlebox: The middlebox as in the plan.
        refuse: Called for each key that Linux cannot honour.
    """
    for key in middlebox.keys() - _KNOWN:
        if middlebox[key]:
            refuse(key, "not supported yet")
    if middlebox["block_tcp_53"] == "reject":
        refuse("block_tcp_53", "a reset needs netfilter, which the guest kernel lacks")
        return
    yield f"qdisc add dev {device} clsact"
    for match in _matches(middlebox):
        yield (
            f"filter add dev {device} egress protocol ip prio 1 u32 {match} "
            f"action mirred egress redirect dev {SINK}"
        )


def _matches(middlebox: Mapping[str, Any]) -> Iterator[str]:
    if middlebox["drop_fragments"]:
        for bit in _FRAGMENT_BITS:
            yield f"match u16 {bit:#06x} {bit:#06x} at 6"
    if middlebox["drop_dns_above"] is not None:
        # Whole datagrams and first fragments, whose offset is 0.
        udp = "match ip protocol 17 0xff match u16 0 0x1fff at 6"
        for side in ("sport", "dport"):
            for value, mask in _above(middlebox["drop_dns_above"] + _UDP_HEADER):
                # UDP's length (RFC 768) is 16 bits at 24.
                yield f"{udp} match ip {side} 53 0xffff match u16 {value:#06x} {mask:#06x} at 24"
    if middlebox["drop_too_big"]:
        # Destination unreachable, fragmentation needed (RFC 792, RFC 1191).
        yield "match ip protocol 1 0xff match u16 0x0304 0xffff at 20"
    if middlebox["block_tcp_53"] == "drop":
        yield "match ip protocol 6 0xff match ip dport 53 0xffff"
    if middlebox["drop_syn_data"]:
        for words in range(5, 16):
            # RFC 9293, 3.1: a header of this many words, a SYN, and a packet longer than that.
            syn = f"match u8 {words << 4:#04x} 0xf0 at 32 match u8 0x02 0x02 at 33"
            for value, mask in _above(_IP_HEADER + 4 * words):
                yield f"match ip protocol 6 0xff {syn} match u16 {value:#06x} {mask:#06x} at 2"


def _above(most: int) -> Iterator[tuple[int, int]]:
    """All 16-bit numbers above `most`, as pairs of value and mask."""
    first = most + 1
    while first <= _LONGEST:
        size = first & -first
        while first + size - 1 > _LONGEST:
            size >>= 1
        yield first, _LONGEST & ~(size - 1)
        first += size
