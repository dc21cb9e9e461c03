"""Captures that tests write packet by packet."""

from __future__ import annotations

import struct

SOA = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01"
"""A query for the SOA record of the root (RFC 1035, 4.1)."""


def reply_to(message: bytes) -> bytes:
    """The same message as a reply."""
    return message[:2] + b"\x80" + message[3:]


def ip(back: bool, protocol: int, payload: bytes, *, number: int = 7) -> bytes:
    """An IPv4 packet from 10.9.0.1 to 10.8.0.1, or back."""
    ends = [bytes([10, 9, 0, 1]), bytes([10, 8, 0, 1])]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), number, 0, 64, protocol, 0)
    return header + b"".join(reversed(ends) if back else ends) + payload


def udp(back: bool, message: bytes, *, port: int = 53) -> bytes:
    """A UDP datagram from port 40000 to the server's port, or back."""
    ends = (port, 40000) if back else (40000, port)
    return struct.pack("!4H", *ends, 8 + len(message), 0) + message


class Written:
    """A capture of raw IPv4 from 10.9.0.1 to 10.8.0.1, packet by packet (RFC 791, 768, 9293)."""

    def __init__(self, link: int = 101) -> None:
        self.frames: list[tuple[float, bytes]] = []
        self.bytes = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)

    def packet(
        self, ms: float, back: bool, protocol: int, payload: bytes, *, number: int = 7
    ) -> None:
        """Adds a packet, or one that goes back; `number` is its IPv4 identification."""
        self.frame(ms, ip(back, protocol, payload, number=number))

    def frame(self, ms: float, packet: bytes) -> None:
        """Adds a frame as it is."""
        seconds, us = divmod(round(1000 * ms), 1_000_000)
        head = struct.pack("<IIII", 1 + seconds, us, len(packet), len(packet))
        self.bytes += head + packet
        self.frames.append((ms, packet))

    def message(
        self, ms: float, back: bool = False, *, message: bytes = SOA, number: int = 7
    ) -> None:
        """Adds a DNS message over UDP."""
        self.packet(ms, back, 17, udp(back, message), number=number)

    def over_udp(self, ms: float, port: int, took: float) -> None:
        """A query and its answer."""
        self.packet(ms, False, 17, udp(False, SOA, port=port))
        self.packet(ms + took, True, 17, udp(True, reply_to(SOA), port=port))

    def over_tcp(self, ms: float, port: int, trip: float) -> None:
        """The same on a connection, whose round trips are seen from the client."""
        reply = reply_to(SOA)
        length = len(SOA).to_bytes(2)
        # Each connection begins with numbers of its own.
        first = round(1000 * ms)
        steps: list[tuple[float, bool, int, int, int, bytes]] = [
            (0, False, 2, 0, 0, b""),
            (trip, True, 18, 0, 1, b""),
            (trip, False, 16, 1, 1, b""),
            (trip, False, 24, 1, 1, length + SOA),
            (2 * trip, True, 24, 1, 3 + len(SOA), length + reply),
            (2 * trip, False, 17, 3 + len(SOA), 3 + len(reply), b""),
            (3 * trip, True, 17, 3 + len(reply), 4 + len(SOA), b""),
        ]
        for at, back, flags, seq, ack, payload in steps:
            ends = (port, 50000) if back else (50000, port)
            numbers = (first + seq, first + ack)
            header = struct.pack("!HHIIBBHHH", *ends, *numbers, 0x50, flags, 65535, 0, 0)
            self.packet(ms + at, back, 6, header + payload)
