"""A client without a kernel: it sends single TCP segments to a server from an unused address.

No kernel answers for this address (it would reset connections that it did not open), so the client
sees exactly what the server sends. Sources: RFC 9293 for TCP, RFC 1071 for its checksum, RFC 8200
for the pseudo-header over IPv6.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .lab import Link, mac_address

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
MSS = 1460

PORTS = itertools.count(20_000)

Made = TypeVar("Made")


@dataclass(frozen=True)
class Segment:
    """A received TCP segment."""

    port: int
    """Ours."""
    seq: int
    ack: int
    flags: int
    payload: bytes


class Ghost:
    """The client."""

    def __init__(self, link: Link, family: int) -> None:
        self.family = family
        self.server = link.server if family == 4 else link.server6
        self.address = link.ghost if family == 4 else link.ghost6
        self._kind = socket.AF_INET if family == 4 else socket.AF_INET6
        own = mac_address(link.client_namespace, link.client_interface)
        theirs = mac_address(link.namespace, link.server_interface)
        kind = b"\x08\x00" if family == 4 else b"\x86\xdd"
        self._ethernet = _mac(theirs) + _mac(own) + kind
        self._socket = entered(link.client_namespace, lambda: _packets(link.client_interface))
        self.port = next(PORTS)

    def close(self) -> None:
        """Ends it."""
        self._socket.close()

    def send(
        self, flags: int, seq: int, ack: int = 0, payload: bytes = b"", port: int | None = None
    ) -> None:
        """Sends one segment; a SYN announces our MSS."""
        options = struct.pack("!BBH", 2, 4, MSS) if flags & SYN else b""
        head = struct.pack(
            "!HHIIBBHHH",
            *(port or self.port, 53, seq % 2**32, ack % 2**32),
            *((5 + len(options) // 4) << 4, flags, 65535, 0, 0),
        )
        segment = head + options + payload
        pseudo = self._packed(self.address) + self._packed(self.server)
        pseudo += struct.pack("!HH", socket.IPPROTO_TCP, len(segment))
        checksum = _checksum(pseudo + segment)
        segment = segment[:16] + struct.pack("!H", checksum) + segment[18:]
        self._socket.send(self._ethernet + self._ip(len(segment)) + segment)

    def receive(self, seconds: float = 0.5) -> Iterator[Segment]:
        """The server's segments until none comes for a time."""
        end_at = time.monotonic() + seconds
        while (left := end_at - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                frame = self._socket.recv(65536)
            except TimeoutError:
                return
            segment = self._parsed(frame)
            if segment is not None:
                end_at = time.monotonic() + seconds
                yield segment

    def open(self) -> tuple[int, int] | None:
        """Does a handshake on a new port; returns the next numbers of both ends, or None."""
        # No earlier connection had this port and these sequence numbers.
        self.port = next(PORTS)
        seq = int.from_bytes(os.urandom(4), "big")
        self.send(SYN, seq)
        for segment in self.receive():
            if segment.port == self.port and segment.flags & (SYN | ACK) == SYN | ACK:
                if segment.ack != (seq + 1) % 2**32:
                    return None
                self.send(ACK, seq + 1, segment.seq + 1)
                return (seq + 1) % 2**32, (segment.seq + 1) % 2**32
        return None

    def _packed(self, address: str) -> bytes:
        return socket.inet_pton(self._kind, address)

    def _ip(self, length: int) -> bytes:
        ends = self._packed(self.address) + self._packed(self.server)
        if self.family == 6:
            return struct.pack("!IHBB", 6 << 28, length, socket.IPPROTO_TCP, 64) + ends
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, 64, socket.IPPROTO_TCP, 0)
        return head[:10] + struct.pack("!H", _checksum(head + ends)) + ends

    def _parsed(self, frame: bytes) -> Segment | None:
        packet = frame[14:]
        if self.family == 4:
            if packet[:1] != b"\x45" or packet[9] != socket.IPPROTO_TCP:
                return None
            source, to, rest = packet[12:16], packet[16:20], packet[20 : _two(packet, 2)]
        else:
            if len(packet) < 60 or packet[0] >> 4 != 6 or packet[6] != socket.IPPROTO_TCP:
                return None
            source, to, rest = packet[8:24], packet[24:40], packet[40 : 40 + _two(packet, 4)]
        if (source, to) != (self._packed(self.server), self._packed(self.address)):
            return None
        _, port, seq, ack, offset, flags = struct.unpack("!HHIIBB", rest[:14])
        return Segment(port, seq, ack, flags, rest[(offset >> 4) * 4 :])


def query(name: str, kind: int, id: int) -> bytes:
    """A query with its length in front, as TCP carries it."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    message = struct.pack("!HHHHHH", id, 0x100, 1, 0, 0, 0) + labels + b"\0"
    message += struct.pack("!HH", kind, 1)
    return struct.pack("!H", len(message)) + message


def entered(namespace: str, make: Callable[[], Made]) -> Made:
    """Calls `make` in another namespace, in a thread that enters it and ends; returns the result.

    Raises:
        OSError: The namespace cannot be entered, or something cannot be made there.
    """
    made: list[Made] = []
    failed: list[OSError] = []

    def enter() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with Path(f"/run/netns/{namespace}").open() as file:
                if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(make())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _packets(interface: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    made.bind((interface, 0))
    return made


def _mac(text: str) -> bytes:
    return bytes(int(part, 16) for part in text.split(":"))


def _two(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
