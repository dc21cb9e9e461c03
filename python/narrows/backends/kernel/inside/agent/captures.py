"""Packets of links as capture files (pcapng, draft-ietf-opsawg-pcapng), from packet sockets.

A capture takes a packet when it leaves the queue, with the kernel's timestamp. That is the start
of its transmission; the simulator's captures have the end. A capture at a place also takes the
packets that arrive there, with their arrival times. Each packet has its direction.

Captures must not slow the network down, which runs on the same processor. For a packet of 1500
bytes, python-pcapng 2.1 takes 19 us, and this module 4 us.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from . import system
from .loop import Loop

_ALL = 3
_PACKET_STATISTICS = 6
_SOL_PACKET = 263
_SO_ATTACH_FILTER = 26
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_ROOM_FOR_STAMP = 64
_ROOM_BYTES = 4 << 20
_LONGEST = 65_535
# linux/filter.h: the packet's type (SKF_AD_PKTTYPE). Whole outgoing packets pass, others do not.
_OUTGOING = struct.pack(
    "=HBBIHBBIHBBIHBBI",
    *(0x30, 0, 0, 0xFFFFF004),
    *(0x15, 0, 1, 4),
    *(0x06, 0, 0, _LONGEST),
    *(0x06, 0, 0, 0),
)
_ETHERNET = 1
# linux/if_packet.h, and the draft's bits for the direction.
_PACKET_OUTGOING = 4
_INBOUND, _OUTBOUND = 0b01, 0b10


class Captures:
    """The captured links of a job."""

    def __init__(
        self, links: Sequence[Mapping[str, Any]], folder: Path, loop: Loop, realtime_origin: float
    ) -> None:
        """Opens a socket and a file for each link.

        Args:
            links: Where each link begins, and the name of its file in `folder`.
            folder: The workspace.
            loop: The loop of this process.
            realtime_origin: CLOCK_REALTIME at the run's start.
        """
        self._origin = realtime_origin
        self._files = [(folder / each["file"]).open("wb", buffering=1 << 16) for each in links]
        self._snaplens = [each["snaplen"] or _LONGEST for each in links]
        self._sockets = []
        for each, file in zip(links, self._files, strict=True):
            file.write(_head(each["link"], each["snaplen"] or 0))
            with system.inside(each["namespace"]):
                # With protocol 0, the socket receives nothing before it is bound.
                found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                found.setblocking(False)
                if not each["both_ways"]:
                    _only_outgoing(found)
                found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM_BYTES)
                found.bind((each["device"], _ALL))
            self._sockets.append(found)
            loop.watch(found, partial(self._receive, len(self._sockets) - 1))

    def end(self) -> dict[str, Any]:
        """Writes the rest, and reports how many packets the sockets had no room for."""
        missed = 0
        for number, found in enumerate(self._sockets):
            self._receive(number)
            counters = found.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            missed += struct.unpack("II", counters)[1]
            self._files[number].close()
        return {"missed": missed}

    def _receive(self, number: int) -> None:
        found, file, snaplen = self._sockets[number], self._files[number], self._snaplens[number]
        while True:
            try:
                data, ancillary, _, sender = found.recvmsg(_LONGEST, _ROOM_FOR_STAMP)
            except OSError:
                return
            when = _stamp(ancillary, self._origin)
            flags = _OUTBOUND if sender[2] == _PACKET_OUTGOING else _INBOUND
            file.write(_packet(data, 0.0 if when is None else when, flags, snaplen))


def _stamp(ancillary: list[tuple[int, int, bytes]], origin: float) -> float | None:
    """When the kernel took a packet, on the run's clock (`SO_TIMESTAMPNS`, socket(7)).

    Args:
        ancillary: The ancillary data from `recvmsg`.
        origin: CLOCK_REALTIME at the run's start; the kernel stamps packets with this clock.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= 16:
            seconds, nanoseconds = struct.unpack_from("qq", data)
            return float((seconds - origin) + nanoseconds * 1e-9)
    return None


def _only_outgoing(found: socket.socket) -> None:
    program = bytearray(_OUTGOING)
    kept = (ctypes.c_char * len(program)).from_buffer(program)
    filter_ = struct.pack("HP", len(program) // 8, ctypes.addressof(kept))
    found.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)


def _head(link: str, snaplen: int) -> bytes:
    """A section, and an interface with times in nanoseconds."""
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    name = link.encode()
    options = struct.pack("<HH", 2, len(name)) + _padded(name)
    options += struct.pack("<HHB3x", 9, 1, 9) + struct.pack("<HH", 0, 0)
    interface = struct.pack("<HHI", _ETHERNET, 0, snaplen) + options
    return _block(0x0A0D0D0A, section) + _block(1, interface)


def _packet(data: bytes, when: float, flags: int, snaplen: int) -> bytes:
    time, kept = max(0, round(when * 1e9)), data[:snaplen]
    head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(kept), len(data))
    # epb_flags (4.3.1), and the end of options.
    return _block(6, head + _padded(kept) + struct.pack("<HHIHH", 2, 4, flags, 0, 0))


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
