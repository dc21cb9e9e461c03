"""A line between two namespaces that delays every packet, loses some, and records all.

It acts like a router: it may fragment packets (RFC 791, 3.2), but it changes nothing else.
"""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from ..frames import PACKET_IGNORE_OUTGOING, SOL_PACKET, internet_checksum
from ..network import Network
from .packets import Packet, parse

Rule = Callable[[Packet, bytes], list[bytes]]
"""What becomes of a frame: itself, nothing, or its fragments."""

DELAY = 0.01
"""The delay in one direction, in seconds."""


class Wire:
    """Runs in a thread until it is closed."""

    def __init__(self, net: Network, rule: Rule, delay: float = DELAY) -> None:
        assert net.wire is not None
        assert net.wire_links is not None
        self.rule, self.delay = rule, delay
        self.record: list[Packet] = []
        """All packets in the order in which they came to the line, including those lost on it."""
        self.ends = []
        with net.wire.inside():
            for link in net.wire_links:
                end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
                end.bind((link, 3))
                end.setblocking(False)
                self.ends.append(end)
        self.running = True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Carries frames."""
        under_way: list[tuple[float, int, int, bytes]] = []
        number = itertools.count()
        while self.running:
            wait = under_way[0][0] - time.monotonic() if under_way else 0.1
            for end in select.select(self.ends, [], [], min(max(wait, 0), 0.1))[0]:
                index = self.ends.index(end)
                frame, now = end.recv(70000), time.monotonic()
                packet = parse(frame, now, from_client=index == 0)
                pieces = [frame]
                if packet is not None:
                    self.record.append(packet)
                    pieces = self.rule(packet, frame)
                for piece in pieces:
                    heapq.heappush(under_way, (now + self.delay, next(number), 1 - index, piece))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, to, frame = heapq.heappop(under_way)
                self.ends[to].send(frame)

    def close(self) -> None:
        """Ends the thread."""
        self.running = False
        self.thread.join()
        for end in self.ends:
            end.close()


def fragments(frame: bytes, mtu: int) -> list[bytes]:
    """A datagram in fragments of at most `mtu` bytes, as a router makes them."""
    head = bytearray(frame[14:34])
    body = frame[34 : 14 + int.from_bytes(head[2:4])]
    if len(body) + 20 <= mtu:
        return [frame]
    step = (mtu - 20) // 8 * 8
    pieces = []
    for at in range(0, len(body), step):
        part = body[at : at + step]
        more = at + step < len(body)
        struct.pack_into(">H", head, 2, 20 + len(part))
        struct.pack_into(">H", head, 6, at // 8 | (0x2000 if more else 0))
        struct.pack_into(">H", head, 10, 0)
        struct.pack_into(">H", head, 10, internet_checksum(bytes(head)))
        pieces.append(frame[:14] + bytes(head) + part)
    return pieces
