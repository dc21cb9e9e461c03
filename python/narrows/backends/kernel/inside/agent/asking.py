"""Clients that ask servers over TCP, and the servers: the base of `incast` and `page`.

Both ends of each connection are in one process, so a request needs no content. Its source port
tells the server which connection it belongs to, and how long the answer has to be. As in the
simulator (`responder.rs`), the server answers after its service time, in the order in which answers
become ready, and sends each answer whole before the next.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from . import system
from .draws import Draw
from .goodput import Goodput
from .loop import READ, WRITE, Loop
from .tcp_info import tcp_info
from .tcp_socket import tcp_socket

_BLOCK = memoryview(b"\0" * 65536)
_AT_ONCE = struct.pack("ii", 1, 0)
_BACKLOG = 4096

Place = Mapping[str, Any]


class _End:
    """One end of a connection, which writes a number of bytes and counts those that arrive."""

    def __init__(self, found: socket.socket, loop: Loop) -> None:
        self.socket = found
        self._loop = loop
        self._unsent = 0
        self._buffer = bytearray(65536)
        self.came: Callable[[int], None] = lambda _count: None
        self.ended: Callable[[], None] = lambda: None

    def watch(self) -> None:
        """Starts reading."""
        events = READ | WRITE if self._unsent else READ
        self._loop.watch(self.socket, events, self._ready)

    def write(self, count: int) -> None:
        """Writes `count` bytes after those that are still waiting."""
        waited = self._unsent > 0
        self._unsent += count
        if not waited and self._send():
            self.watch()

    def close(self, *, at_once: bool = False) -> None:
        """Closes the end, with a reset if `at_once`, and calls no callback."""
        if self.socket.fileno() < 0:
            return
        self._loop.forget(self.socket)
        if at_once:
            with contextlib.suppress(OSError):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.socket.close()

    def _ready(self, events: int) -> None:
        if events & WRITE and self._unsent:
            if not self._send():
                return
            if not self._unsent:
                self.watch()
        if events & READ:
            self._receive()

    def _send(self) -> bool:
        """Sends as much as it can; returns False if the connection has failed."""
        try:
            while self._unsent:
                self._unsent -= self.socket.send(_BLOCK[: self._unsent])
        except BlockingIOError:
            pass
        except OSError:
            self._fail()
            return False
        return True

    def _receive(self) -> None:
        try:
            count = self.socket.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count:
            self.came(count)
        else:
            self._fail()

    def _fail(self) -> None:
        self.close()
        self.ended()


class Call:
    """A client's connection."""

    def __init__(
        self,
        servers: Servers,
        server: int,
        *,
        opened: Callable[[Call], None],
        answered: Callable[[Call, int, int], None],
        closed: Callable[[Call], None],
    ) -> None:
        """Opens it.

        Args:
            servers: The servers of the group.
            server: The number of the server to connect to.
            opened: Called when the connection is open.
            answered: Called with an answer's tag and bytes once it is complete.
            closed: Called when the connection fails.
        """
        self.is_open = False
        self.tag: Any = None
        self.asked: deque[tuple[int, int]] = deque()
        """Requests that the server has not received yet: bytes and tag of each answer."""
        self.coming: deque[tuple[int, int]] = deque()
        """Answers that the server has written or is about to write: bytes and tag of each."""
        self.answerer: _End | None = None
        self._servers = servers
        self._opened, self._answered, self._closed = opened, answered, closed
        self._count = 0
        self._resent = 0
        job, place = servers.job, servers.job["servers"][server]
        with system.inside(job["client"]):
            found = tcp_socket(job)
        found.bind((job["client_address"], 0))
        self.name = found.getsockname()
        servers.calls[self.name] = self
        self._end = _End(found, servers.loop)
        self._end.came, self._end.ended = self._came, self._ended
        with contextlib.suppress(BlockingIOError):
            found.connect((place["address"], job["port"]))
        servers.loop.watch(found, WRITE, self._connected)

    def ask(self, answer: int, tag: int) -> None:
        """Sends a request for an answer of `answer` bytes."""
        self.asked.append((answer, tag))
        self._end.write(self._servers.job["request"])

    def close(self, *, at_once: bool = False) -> None:
        """Closes the connection, with a reset if `at_once`, and calls no callback."""
        self.is_open = False
        self._end.close(at_once=at_once)

    def resent(self) -> int:
        """Segments that the server has retransmitted since the last call."""
        before = self._resent
        if self.answerer is not None and self.answerer.socket.fileno() >= 0:
            self._resent = int(tcp_info(self.answerer.socket).get("retransmitted", before))
        return self._resent - before

    def _connected(self, _events: int) -> None:
        if self._end.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._end.close()
            self._ended()
            return
        self.is_open = True
        self._end.watch()
        self._opened(self)

    def _came(self, count: int) -> None:
        self._count += count
        self._servers.goodput.bytes[0] += count
        while self.coming and self._count >= self.coming[0][0]:
            length, tag = self.coming.popleft()
            self._count -= length
            self._answered(self, tag, length)

    def _ended(self) -> None:
        self.is_open = False
        self._closed(self)


class Servers:
    """All servers of a group's client."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        """Listens.

        Raises:
            OSError: A port is taken.
        """
        self.job = job
        self.loop = loop
        self.goodput = Goodput(job["goodput_s"], loop)
        self.calls: dict[Any, Call] = {}
        self._service = Draw(job["service"], f"{seed} service")
        self._turn = 0
        self._listening = []
        places = {(place["namespace"], place["address"]) for place in job["servers"]}
        for namespace, address in sorted(places):
            with system.inside(namespace):
                found = tcp_socket(job)
            found.bind((address, job["port"]))
            found.listen(_BACKLOG)
            self._listening.append(found)
            loop.watch(found, READ, partial(self._accept, found))

    def _accept(self, listening: socket.socket, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                found, peer = listening.accept()
                found.setblocking(False)
                call = self.calls.pop(peer, None)
                if call is None:
                    found.close()
                    continue
                end = _End(found, self.loop)
                call.answerer = end
                end.came = _Reading(self, call).came
                # The client closes first.
                end.ended = end.close
                end.watch()

    def on_request(self, call: Call) -> None:
        """Called when a whole request has arrived; its answer follows."""
        length, tag = call.asked.popleft()
        service = self._service.next(self._turn)
        self._turn += 1
        if service:
            self.loop.at(self.loop.now() + service, partial(self._answer, call, length, tag))
        else:
            self._answer(call, length, tag)

    def _answer(self, call: Call, length: int, tag: int) -> None:
        if call.answerer is not None and call.answerer.socket.fileno() >= 0:
            call.coming.append((length, tag))
            call.answerer.write(length)


class _Reading:
    """How far a server has read a connection."""

    def __init__(self, servers: Servers, call: Call) -> None:
        self._servers = servers
        self._call = call
        self._count = 0

    def came(self, count: int) -> None:
        """Notes that `count` bytes have arrived."""
        self._count += count
        while self._count >= self._servers.job["request"] and self._call.asked:
            self._count -= self._servers.job["request"]
            self._servers.on_request(self._call)
