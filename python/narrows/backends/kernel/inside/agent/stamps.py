"""When the kernel took a packet from the device: `SO_TIMESTAMPNS` (socket(7)), on UDP and TCP."""

from __future__ import annotations

import socket
import struct

ROOM = 64
"""Bytes for the control message."""

_SO_TIMESTAMPNS = 35


def wants_stamps(found: socket.socket) -> None:
    """Requests a timestamp with each message that a socket receives."""
    found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def stamp(ancillary: list[tuple[int, int, bytes]], origin: float) -> float | None:
    """The time of the last packet received, on the run's clock; None without a stamp.

    Args:
        ancillary: The ancillary data from `recvmsg`.
        origin: CLOCK_REALTIME at the run's start; the kernel stamps packets with this clock.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= 16:
            seconds, nanoseconds = struct.unpack_from("qq", data)
            return float((seconds - origin) + nanoseconds * 1e-9)
    return None
