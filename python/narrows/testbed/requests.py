"""Counts the queries over TCP that arrive at a server's machine, and those that get an answer.

It watches the packets on the server's side of the path. So it also sees queries that the kernel
holds for a server without free connections, and answers to clients that have given up. Crowds and
probes that do not share connections send one query per connection, so a connection counts as one
query here. At the end, the counter waits for answers that are still due.
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from narrows.testbed.bed import Bed
from narrows.testbed.namespace import await_ready
from narrows.testbed.needs import BedError

PROGRAM = "from narrows.testbed.requests import main; main()"

_PORT = 53
_TCP = 6
_SYN = 0x02

_ALL_PACKETS = 0x0003
"""`ETH_P_ALL` from linux/if_ether.h: packets in both directions."""
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
"""From linux/if_packet.h. The statistics are two numbers: packets, and missed packets."""
_BUFFER_BYTES = 1 << 23

_QUIET_S = 0.2
"""After this many seconds without packets, the counter checks whether it may end."""

ANSWER_S = 15.0
"""Seconds that the counter waits at the end for answers that are due. If a full server's kernel has
dropped a query, it comes again after 0.2, 0.4, 0.8 s and so on. With clients that give up after
10 s, the last but one comes less than 13 s after they closed."""


@dataclass
class Requests:
    """The counts, once the block of `counted` has ended."""

    asked: int = 0
    """Connections over which a query arrived."""
    answered: int = 0
    """Those over which the server sent anything."""
    missed: int = 0
    """Packets that the counter was too slow to see; if any, the other numbers may be wrong."""

    @property
    def lost_percent(self) -> float | None:
        """Per cent of the arrived queries without an answer; None if the counter missed packets."""
        if self.missed or not self.asked:
            return None
        return 100.0 * (self.asked - self.answered) / self.asked


@contextlib.contextmanager
def counted(bed: Bed) -> Iterator[Requests]:
    """Counts until the block ends.

    Raises:
        BedError: The counter cannot see the packets.
    """
    found = Requests()
    with tempfile.TemporaryFile() as log:
        words = [sys.executable, "-c", PROGRAM]
        with bed.server.running(words, log, ends_within_s=ANSWER_S + 5.0) as process:
            await_ready(process, log, "request counter")
            yield found
        log.seek(0)
        said = log.read().decode(errors="replace").splitlines()
    try:
        found.asked, found.answered, found.missed = json.loads(said[-1])
    except ValueError:
        raise BedError(f"request counter: {said[-1]}") from None


class Counter:
    """The connections of a server, from its packets."""

    def __init__(self) -> None:
        self.asked = self.answered = 0
        self._seen: dict[bytes, tuple[bool, bool]] = {}
        """By the client's address and port: whether a query arrived, and an answer."""

    def take(self, packet: bytes) -> None:
        """Counts a packet that begins with its IPv4 header (RFC 791; RFC 9293, section 3.1)."""
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != _TCP:
            return
        begin = 4 * (packet[0] & 15)
        if len(packet) < begin + 20:
            return
        (length,) = struct.unpack_from("!H", packet, 2)
        source, target = packet[begin : begin + 2], packet[begin + 2 : begin + 4]
        payload = length - begin - 4 * (packet[begin + 12] >> 4)
        if int.from_bytes(target) == _PORT:
            client = packet[12:16] + source
            if packet[begin + 13] & _SYN:
                self._end(client)
            elif payload > 0:
                self._seen[client] = (True, self._seen.get(client, (False, False))[1])
        elif int.from_bytes(source) == _PORT and payload > 0:
            client = packet[16:20] + target
            self._seen[client] = (self._seen.get(client, (False, False))[0], True)

    @property
    def due(self) -> bool:
        """Whether a query has no answer yet."""
        return any(asked and not answered for asked, answered in self._seen.values())

    def total(self) -> tuple[int, int]:
        """The number of connections with a query, and of those with an answer as well."""
        for client in list(self._seen):
            self._end(client)
        return self.asked, self.answered

    def _end(self, client: bytes) -> None:
        asked, answered = self._seen.pop(client, (False, False))
        self.asked += asked
        self.answered += asked and answered


def main() -> None:
    """Counts until SIGTERM arrives and no answer is due, and prints the numbers."""
    until = math.inf

    def end(*_: object) -> None:
        nonlocal until
        until = time.monotonic() + ANSWER_S

    counter = Counter()
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ALL_PACKETS)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        tap.settimeout(_QUIET_S)
        signal.signal(signal.SIGTERM, end)
        print("ready", flush=True)
        while time.monotonic() < until:
            try:
                counter.take(tap.recv(96))
            except TimeoutError:
                if until < math.inf and not counter.due:
                    break
        missed = struct.unpack("II", tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
    print(json.dumps([*counter.total(), missed]), flush=True)
