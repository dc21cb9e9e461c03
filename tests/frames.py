"""What tests need that read and write frames: options of packet sockets, the Internet checksum."""

from __future__ import annotations

import struct

SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
"""packet(7), linux/if_packet.h."""


def internet_checksum(data: bytes) -> int:
    """RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
