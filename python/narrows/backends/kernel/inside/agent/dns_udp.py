"""Queries over UDP: a worker's sockets, and the replies that arrive at them.

A worker has one port for all its attempts, or a new one for each. The ports of a query stay open
until the worker's next query begins. A later reply is lost, as with a stub resolver that has
finished.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from . import system
from .dns_rows import Attempt, Told
from .loop import READ, Loop
from .stamps import ROOM, stamp, wants_stamps

_LARGEST = 65535
_HEADER = 12
_TRUNCATED = 0x02
_IP = 20
_BELOW_DNS = _IP + 8
_REMEMBERED = 64


class Datagrams:
    """The sockets of one worker."""

    def __init__(
        self,
        job: Told,
        loop: Loop,
        on_reply: Callable[[Attempt, float, bool], None],
    ) -> None:
        """Opens no socket yet.

        Args:
            job: The group's job.
            loop: The loop of the process.
            on_reply: Called with an attempt, when its first reply came, and whether the reply is
                truncated.
        """
        self._job = job
        self._loop = loop
        self._on_reply = on_reply
        self._sockets: list[socket.socket] = []
        # Attempts that may still get a reply, by number.
        self._asked: dict[int, Attempt] = {}

    def send(self, attempt: Attempt, number: int, message: bytes) -> None:
        """Sends an attempt's query with this number."""
        if self._job["udp"]["new_port"] or not self._sockets:
            self._open()
        found = self._sockets[-1]
        self._asked[number] = attempt
        if len(self._asked) > _REMEMBERED:
            del self._asked[next(iter(self._asked))]
        attempt.sent = fragments(len(message), self._job["mtu_there"])
        try:
            found.send(message)
        except OSError:
            # The host's own queue is full, or it cannot resolve its neighbour. The attempt times
            # out, as it would in a stub resolver.
            return

    def is_taken(self, number: int) -> bool:
        """Whether a reply with this number would match another attempt."""
        return number in self._asked

    def begin(self) -> None:
        """Prepares for the next query: closes ports that only the last query used."""
        if not self._job["udp"]["new_port"]:
            return
        for found in self._sockets:
            self._loop.forget(found)
            found.close()
        self._sockets.clear()
        self._asked.clear()

    def _open(self) -> None:
        with system.inside(self._job["client"]):
            found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        wants_stamps(found)
        found.bind((self._job["udp"]["client_address"], 0))
        found.connect((self._job["udp"]["server_address"], self._job["port"]))
        self._sockets.append(found)
        self._loop.watch(found, READ, lambda _events: self._receive(found))

    def _receive(self, found: socket.socket) -> None:
        while True:
            try:
                data, ancillary, _, _ = found.recvmsg(_LARGEST, ROOM)
            except OSError:
                return
            if len(data) < _HEADER:
                continue
            attempt = self._asked.pop(struct.unpack_from(">H", data)[0], None)
            if attempt is None:
                continue
            attempt.received = fragments(len(data), self._job["mtu_back"])
            came_s = stamp(ancillary, self._job["realtime_origin"])
            now = self._loop.now() if came_s is None else came_s
            self._on_reply(attempt, now, bool(data[2] & _TRUNCATED))


def fragments(message: int, mtu: int) -> tuple[int, int]:
    """The number of IP packets for a datagram of `message` bytes, and their total length."""
    if message + _BELOW_DNS <= mtu:
        return 1, message + _BELOW_DNS
    # The payload of a fragment is a multiple of 8 bytes (RFC 791, 3.2).
    count = -(-(message + 8) // ((mtu - _IP) // 8 * 8))
    return count, message + 8 + count * _IP
