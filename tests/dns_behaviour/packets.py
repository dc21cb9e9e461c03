"""IPv4 packets as seen on the line.

RFC 791 for IPv4 and its fragments, RFC 9293 for TCP, RFC 7413 for the Fast Open option.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

ICMP, TCP, UDP = 1, 6, 17
FIN, SYN, RST, PSH, ACK, ECE, CWR = 1, 2, 4, 8, 16, 64, 128
LETTERS = {SYN: "S", FIN: "F", RST: "R", PSH: "P", ACK: ".", ECE: "E", CWR: "W"}
FAST_OPEN = 34


@dataclass(frozen=True)
class Packet:
    """An IPv4 packet, and when it passed."""

    at: float
    """When it passed, in seconds."""
    from_client: bool
    protocol: int
    source: str
    destination: str
    length: int
    """Bytes of the IP packet, including its header."""
    ecn: int
    """The two ECN bits of the IP header (RFC 3168, 5)."""
    offset: int
    """The offset of a fragment in its datagram; 0 for the first and for a whole datagram."""
    more: bool
    """Whether more fragments follow."""
    do_not_fragment: bool
    source_port: int = 0
    destination_port: int = 0
    flags: int = 0
    sequence: int = 0
    options: tuple[tuple[int, bytes], ...] = ()
    payload: bytes = b""

    @property
    def client_port(self) -> int:
        """The port at the client's end."""
        return self.source_port if self.from_client else self.destination_port

    @property
    def server(self) -> str:
        """The address at the server's end."""
        return self.destination if self.from_client else self.source

    @property
    def fragment(self) -> bool:
        """Whether it is a part of a datagram."""
        return self.more or self.offset > 0

    def option(self, kind: int) -> bytes | None:
        """The value of a TCP option."""
        return next((value for number, value in self.options if number == kind), None)

    def letters(self) -> str:
        """The flags as tcpdump writes them; `udp` or `fragment` for packets without flags."""
        if self.offset:
            return "fragment"
        if self.protocol == TCP:
            return "".join(letter for bit, letter in LETTERS.items() if self.flags & bit)
        return "udp" if self.protocol == UDP else "icmp"


def parse(frame: bytes, at: float, from_client: bool) -> Packet | None:
    """The packet in an Ethernet frame; None for what is not IPv4."""
    if len(frame) < 34 or frame[12:14] != b"\x08\x00":
        return None
    head = (frame[14] & 15) * 4
    (length,) = struct.unpack_from(">H", frame, 16)
    (fragment,) = struct.unpack_from(">H", frame, 20)
    protocol = frame[23]
    body = frame[14 + head : 14 + length]
    common = {
        "at": at,
        "from_client": from_client,
        "protocol": protocol,
        "source": str(IPv4Address(frame[26:30])),
        "destination": str(IPv4Address(frame[30:34])),
        "length": length,
        "ecn": frame[15] & 3,
        "offset": (fragment & 0x1FFF) * 8,
        "more": bool(fragment & 0x2000),
        "do_not_fragment": bool(fragment & 0x4000),
    }
    if common["offset"]:
        return Packet(**common, payload=body)
    if protocol == UDP:
        source, destination = struct.unpack_from(">HH", body)
        return Packet(**common, source_port=source, destination_port=destination, payload=body[8:])
    if protocol == TCP:
        source, destination, sequence = struct.unpack_from(">HHI", body)
        size = (body[12] >> 4) * 4
        return Packet(
            **common,
            source_port=source,
            destination_port=destination,
            sequence=sequence,
            flags=body[13],
            options=tuple(tcp_options(body[20:size])),
            payload=body[size:],
        )
    return Packet(**common, payload=body)


def once(packets: Sequence[Packet]) -> list[Packet]:
    """The packets without those that TCP sent again because a busy machine was late."""
    seen: set[tuple[bool, int, int, int, int]] = set()
    kept = []
    for packet in packets:
        ends = (packet.from_client, packet.client_port)
        segment = (*ends, packet.sequence, packet.flags, len(packet.payload))
        if packet.protocol != TCP or not (packet.payload or packet.flags & (SYN | FIN)):
            kept.append(packet)
        elif segment not in seen:
            seen.add(segment)
            kept.append(packet)
    return kept


def tcp_options(rest: bytes) -> list[tuple[int, bytes]]:
    """Kind and value of each (RFC 9293, 3.1)."""
    found = []
    while rest and rest[0]:
        if rest[0] == 1:
            rest = rest[1:]
            continue
        if len(rest) < 2 or not 2 <= rest[1] <= len(rest):
            break
        found.append((rest[0], rest[2 : rest[1]]))
        rest = rest[rest[1] :]
    return found


def read_pcapng(path: Path) -> list[tuple[float, bytes]]:
    """Time in seconds and bytes of each frame of a capture of one interface, little-endian.

    This reads only what dumpcap writes here (draft-ietf-opsawg-pcapng).
    """
    data, at, ticks, frames = path.read_bytes(), 0, 1_000_000, []
    while at + 12 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if size < 12 or at + size > len(data):
            raise ValueError(f"{path}: block at byte {at} is cut")
        body = data[at + 8 : at + size - 4]
        if kind == 1:
            ticks = resolution(body[8:]) or ticks
        elif kind == 6:
            _, high, low, captured, _ = struct.unpack_from("<IIIII", body)
            frames.append((((high << 32) | low) / ticks, body[20 : 20 + captured]))
        at += size
    return frames


def resolution(options: bytes) -> int | None:
    """Ticks a second, from the options of an interface (if_tsresol)."""
    at = 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from("<HH", options, at)
        if code == 0:
            break
        if code == 9:
            value = options[at + 4]
            return int((2 if value & 0x80 else 10) ** (value & 0x7F))
        at += 4 + (size + 3) // 4 * 4
    return None
