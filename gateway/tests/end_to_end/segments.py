"""TCP by hand: segments written and read one by one, from addresses that no kernel owns.

Nothing is done unless a test says so: no acknowledgement, no retransmission, no reset. Sources: RFC
9293 for TCP, 7323 for window scale and timestamps, 791 and 8200 for the IP headers.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from tests.frames import PACKET_IGNORE_OUTGOING, SOL_PACKET, internet_checksum
from tests.network import CLIENT_MAC, SERVER_MAC, Network

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
LETTERS = {FIN: "F", SYN: "S", RST: "R", PSH: "P", ACK: ".", URG: "U"}
NOP = b"\x01"
PACKET_AUXDATA, PACKET_VNET_HDR = 8, 15
NEEDS_CSUM = 1
VLAN_VALID = 1 << 4
MODULUS = 1 << 32


@dataclass(frozen=True)
class Segment:
    """A TCP segment with all headers; numbers are those on the wire."""

    source: str
    source_port: int
    destination: str
    destination_port: int = 53
    seq: int = 0
    ack: int = 0
    flags: int = ACK
    window: int = 65535
    options: bytes = b""
    payload: bytes = b""
    ip_options: bytes = b""
    """For IPv4: options, a multiple of 4 bytes. For IPv6: extension headers."""
    first_header: int = 6
    vlan: tuple[int, ...] = ()
    """VLAN identifiers, outermost first."""
    padding: bytes = b""
    """Bytes behind the IP packet, as Ethernet pads short frames."""
    checksum: int | None = None
    """The checksum; None: the right one."""
    data_offset: int | None = None
    """The length of the TCP header in 32-bit words; None: the right one."""

    @property
    def next(self) -> int:
        """The sequence number after this segment."""
        flags = bool(self.flags & SYN) + bool(self.flags & FIN)
        return (self.seq + len(self.payload) + flags) % MODULUS

    def option(self, kind: int) -> bytes | None:
        """The value of a TCP option."""
        rest = self.options
        while rest and rest[0]:
            if rest[0] == 1:
                rest = rest[1:]
                continue
            if len(rest) < 2 or rest[1] < 2:
                return None
            if rest[0] == kind:
                return rest[2 : rest[1]]
            rest = rest[rest[1] :]
        return None

    @property
    def mss(self) -> int | None:
        """The MSS option."""
        value = self.option(2)
        return int.from_bytes(value) if value else None

    @property
    def window_scale(self) -> int | None:
        """The window scale option."""
        value = self.option(3)
        return value[0] if value else None

    @property
    def sack_permitted(self) -> bool:
        """Whether the SACK-permitted option is there."""
        return self.option(4) is not None

    @property
    def timestamps(self) -> tuple[int, int] | None:
        """TSval and TSecr."""
        value = self.option(8)
        return struct.unpack(">II", value) if value else None

    def __str__(self) -> str:
        letters = "".join(letter for bit, letter in LETTERS.items() if self.flags & bit)
        where = f"{self.source}:{self.source_port} > {self.destination}:{self.destination_port}"
        rest = f"seq {self.seq} ack {self.ack} win {self.window} len {len(self.payload)}"
        return f"{where} [{letters}] {rest} options {self.options.hex()}"

    def frame(self) -> bytes:
        """The segment as an Ethernet frame from the client to the server."""
        source, destination = ip_address(self.source), ip_address(self.destination)
        offset = self.data_offset
        if offset is None:
            offset = 5 + len(self.options) // 4
        ports = struct.pack(">HH", self.source_port, self.destination_port)
        numbers = struct.pack(">IIBBH", self.seq, self.ack, offset << 4, self.flags, self.window)
        before, after = ports + numbers, b"\0\0" + self.options + self.payload
        length = len(before) + 2 + len(after)
        pseudo = source.packed + destination.packed + struct.pack(">II", length, 6)
        checksum = self.checksum
        if checksum is None:
            checksum = internet_checksum(pseudo + before + b"\0\0" + after)
        tcp = before + checksum.to_bytes(2) + after
        if source.version == 4:
            size = 20 + len(self.ip_options)
            head = struct.pack(">BBHHHBB", 0x40 | size // 4, 0, size + length, 0, 0x4000, 64, 6)
            rest = source.packed + destination.packed + self.ip_options
            head += internet_checksum(head + b"\0\0" + rest).to_bytes(2) + rest
            kind = 0x0800
        else:
            head = struct.pack(
                ">IHBB", 6 << 28, len(self.ip_options) + length, self.first_header, 64
            )
            head += source.packed + destination.packed + self.ip_options
            kind = 0x86DD
        ether = SERVER_MAC + CLIENT_MAC
        for identifier in self.vlan:
            ether += struct.pack(">HH", 0x8100, identifier)
        return ether + kind.to_bytes(2) + head + tcp + self.padding


def fragments(segment: Segment, at: int) -> list[bytes]:
    """The segment in two IP fragments; the first ends behind so many bytes of TCP."""
    frame = segment.frame()
    size = 34 if frame[14] >> 4 == 4 else 54
    head, tcp = frame[:size], frame[size:]
    identification = DRAW.getrandbits(16)
    parts = []
    for offset, more, data in ((0, 1, tcp[:at]), (at, 0, tcp[at:])):
        made = bytearray(head)
        if size == 34:
            place = more << 13 | offset // 8
            made[16:22] = struct.pack(">HHH", 20 + len(data), identification, place)
            made[24:26] = bytes(2)
            made[24:26] = internet_checksum(bytes(made[14:])).to_bytes(2)
        else:
            made[18:20], made[20] = (8 + len(data)).to_bytes(2), 44
            made += struct.pack(">BBHI", 6, 0, offset | more, identification)
        parts.append(bytes(made) + data)
    return parts


def parse(frame: bytes, vlan: tuple[int, ...] = ()) -> Segment | None:
    """The TCP segment in a frame, or None; a wrong checksum fails the test."""
    kind, at = int.from_bytes(frame[12:14]), 14
    while kind == 0x8100:
        vlan += (int.from_bytes(frame[at : at + 2]) & 0xFFF,)
        kind, at = int.from_bytes(frame[at + 2 : at + 4]), at + 4
    if kind == 0x0800:
        size = (frame[at] & 15) * 4
        end = at + int.from_bytes(frame[at + 2 : at + 4])
        protocol, addresses, width = frame[at + 9], at + 12, 4
        ip_options = frame[at + 20 : at + size]
        assert internet_checksum(frame[at : at + size]) == 0, "IPv4 header checksum"
    elif kind == 0x86DD:
        size, ip_options = 40, b""
        end = at + 40 + int.from_bytes(frame[at + 4 : at + 6])
        protocol, addresses, width = frame[at + 6], at + 8, 16
    else:
        return None
    if protocol != 6:
        return None
    source, destination = (frame[addresses + i * width :][:width] for i in (0, 1))
    tcp = frame[at + size : end]
    offset = (tcp[12] >> 4) * 4
    pseudo = source + destination + struct.pack(">II", len(tcp), 6)
    right = internet_checksum(pseudo + tcp) == 0
    return Segment(
        str(ip_address(source)),
        int.from_bytes(tcp[0:2]),
        str(ip_address(destination)),
        int.from_bytes(tcp[2:4]),
        *struct.unpack(">II", tcp[4:12]),
        flags=tcp[13] & 0x3F,
        window=int.from_bytes(tcp[14:16]),
        options=tcp[20:offset],
        payload=tcp[offset:],
        ip_options=ip_options,
        vlan=vlan,
        padding=frame[end:],
        checksum=None if right else int.from_bytes(tcp[16:18]),
    )


class Tap:
    """The client's end of the line: sends and receives raw frames."""

    def __init__(self, net: Network) -> None:
        with net.client.inside():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            self.socket.bind((net.client_link, 3))
        self.socket.setblocking(False)
        self.waiting: deque[Segment] = deque(maxlen=5000)
        """Segments that have come and were not asked for yet."""

    def close(self) -> None:
        """Closes the line."""
        self.socket.close()

    def send(self, *segments: Segment | bytes) -> None:
        """Sends segments, or whole frames."""
        for segment in segments:
            frame = segment if isinstance(segment, bytes) else segment.frame()
            self.socket.send(bytes(10) + frame)

    def receive(
        self, timeout: float, wanted: Callable[[Segment], bool] = lambda _: True
    ) -> Segment | None:
        """The next wanted segment, or None after that many seconds."""
        for segment in self.waiting:
            if wanted(segment):
                self.waiting.remove(segment)
                return segment
        until = time.monotonic() + timeout
        while True:
            ready = select.select([self.socket], [], [], max(0, until - time.monotonic()))[0]
            if not ready:
                return None
            frame, ancillary, _, _ = self.socket.recvmsg(70000, 256)
            vlan: tuple[int, ...] = ()
            for level, kind, data in ancillary:
                if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                    status, _, _, _, _, tag, _ = struct.unpack("=IIIHHHH", data[:20])
                    if status & VLAN_VALID:
                        vlan = (tag & 0xFFF,)
            segment = parse(completed(frame), vlan)
            if segment is None:
                continue
            if wanted(segment):
                return segment
            self.waiting.append(segment)


def completed(frame: bytes) -> bytes:
    """A frame behind its virtio-net header, its checksum completed as by a card (virtio 1.2)."""
    flags, _, _, _, start, offset = struct.unpack("=BBHHHH", frame[:10])
    frame = frame[10:]
    if not flags & NEEDS_CSUM:
        return frame
    at = start + offset
    value = internet_checksum(frame[start:])
    return frame[:at] + value.to_bytes(2) + frame[at + 2 :]


PORTS = iter(range(20000, 60000))
DRAW = random.Random(2026)


@dataclass
class Peer:
    """A client that does what a test tells it; every field may be set at any time."""

    tap: Tap
    server: str
    address: str = ""
    port: int = 0
    mss: int | None = 1460
    window_scale: int | None = 7
    sack: bool = True
    timestamps: bool = True
    window: int = 65535
    """The window as in segments, before scaling."""
    vlan: tuple[int, ...] = ()
    ip_options: bytes = b""
    first_header: int = 6
    seq: int = 0
    """The next byte to send."""
    ack: int = 0
    """The next byte expected."""
    tsval: int = 1000
    tsecr: int = 0
    seen: list[Segment] = field(default_factory=list)
    """Everything that arrived, in order."""

    def __post_init__(self) -> None:
        self.port = self.port or next(PORTS)
        self.address = self.address or ("2001:db8:f::1" if ":" in self.server else "198.18.0.1")
        self.seq = DRAW.getrandbits(32)

    def segment(self, payload: bytes = b"", flags: int = ACK, **other: object) -> Segment:
        """The segment that would be sent now; `other` fields replace its own."""
        options = b""
        if self.timestamps and not flags & RST:
            options = NOP * 2 + struct.pack(">BBII", 8, 10, self.tsval, self.tsecr)
        made = Segment(
            self.address,
            self.port,
            self.server,
            seq=self.seq,
            ack=self.ack if flags & ACK else 0,
            flags=flags,
            window=self.window,
            options=options,
            payload=payload,
            vlan=self.vlan,
            ip_options=self.ip_options,
            first_header=self.first_header,
        )
        return replace(made, **other)  # type: ignore[arg-type]

    def send(self, payload: bytes = b"", flags: int = ACK, **other: object) -> Segment:
        """Sends it, and advances the sequence number unless `seq` is among the others."""
        segment = self.segment(payload, flags, **other)
        self.tap.send(segment)
        if "seq" not in other:
            self.seq = segment.next
        return segment

    def mine(self, segment: Segment) -> bool:
        """Whether a segment belongs to this connection."""
        return (segment.destination, segment.destination_port, segment.source) == (
            self.address,
            self.port,
            self.server,
        )

    def receive(self, timeout: float = 1.0) -> Segment | None:
        """The connection's next segment."""
        segment = self.tap.receive(timeout, self.mine)
        if segment is not None:
            assert segment.checksum is None, f"wrong TCP checksum: {segment}"
            self.seen.append(segment)
            if segment.timestamps is not None:
                self.tsecr = segment.timestamps[0]
        return segment

    def expect(self, flags: int | None = None, timeout: float = 2.0) -> Segment:
        """The next segment, which must come, with these flags apart from PSH, if given."""
        segment = self.receive(timeout)
        assert segment is not None, f"nothing came; before: {[str(s) for s in self.seen]}"
        if flags is not None:
            assert segment.flags & ~PSH == flags, str(segment)
        return segment

    def quiet(self, seconds: float = 0.15) -> None:
        """Checks that nothing comes for that long."""
        segment = self.receive(seconds)
        assert segment is None, str(segment)

    def syn(self) -> bytes:
        """The options of a SYN, as Linux lays them out."""
        options = struct.pack(">BBH", 2, 4, self.mss) if self.mss is not None else b""
        stamps = struct.pack(">BBII", 8, 10, self.tsval, 0)
        if self.timestamps:
            options += (b"\x04\x02" if self.sack else NOP * 2) + stamps
        elif self.sack:
            options += NOP * 2 + b"\x04\x02"
        if self.window_scale is not None:
            options += NOP + struct.pack(">BBB", 3, 3, self.window_scale)
        return options

    def connect(self, acknowledge: bool = True) -> Segment:
        """Does the handshake, and returns the SYN/ACK."""
        self.send(flags=SYN, options=self.syn(), window=min(self.window, 65535))
        answer = self.expect(SYN | ACK)
        assert answer.ack == self.seq, str(answer)
        self.ack = answer.next
        if answer.timestamps is None:
            self.timestamps = False
        if answer.window_scale is None:
            self.window_scale = None
        if acknowledge:
            self.send()
        return answer

    def reply(
        self,
        timeout: float = 5.0,
        again: Callable[[], object] = lambda: None,
        lose: frozenset[int] | set[int] = frozenset(),
        acknowledge: bool = True,
    ) -> bytes:
        """The next DNS message, without its length, acknowledged as segments come in order.

        `lose` has numbers of segments with data, from 0, that are treated as lost. Whenever 0.2
        seconds pass without a segment, `again` is called, which may send something again.
        """
        stream: dict[int, bytes] = {}
        begin, until, count = self.ack, time.monotonic() + timeout, 0
        have = b""
        while len(have) < 2 or len(have) < 2 + int.from_bytes(have[:2]):
            assert time.monotonic() < until, f"stuck: {[str(s) for s in self.seen[-20:]]}"
            segment = self.receive(0.2)
            if segment is None:
                again()
                continue
            assert not segment.flags & RST, str(segment)
            if not segment.payload:
                continue
            count += 1
            if count - 1 in lose:
                continue
            offset = (segment.seq - begin) % MODULUS
            if offset < MODULUS // 2:
                old = stream.get(offset, b"")
                assert old[: len(segment.payload)] == segment.payload[: len(old)], "two contents"
                stream[offset] = max(old, segment.payload, key=len)
            have = in_order(stream)
            self.ack = (begin + len(have)) % MODULUS
            if acknowledge:
                self.send()
        length = int.from_bytes(have[:2])
        assert len(have) == 2 + length, "more than one message"
        if self.seen[-1].flags & FIN and self.seen[-1].next == (self.ack + 1) % MODULUS:
            self.ack = (self.ack + 1) % MODULUS
            if acknowledge:
                self.send()
        return have[2:]


def in_order(stream: dict[int, bytes]) -> bytes:
    """The bytes from 0 up to the first gap."""
    have = b""
    for offset in sorted(stream):
        if offset > len(have):
            break
        data = stream[offset]
        overlap = have[offset : offset + len(data)]
        assert data[: len(overlap)] == overlap, "two contents for the same sequence numbers"
        have += data[len(overlap) :]
    return have


@contextlib.contextmanager
def tap(net: Network) -> Iterator[Tap]:
    """A tap that is closed at the end."""
    made = Tap(net)
    try:
        yield made
    finally:
        made.close()
