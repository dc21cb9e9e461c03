"""A DNS server that behaves like old servers, or as badly as you want.

Real servers behave as follows:

- NSD up to 3.2.13 wrote the two-byte length and the message with two calls to write(2) and left
  Nagle's algorithm on (Wijnen 2012; its server.c). 3.2.14 writes once, with writev(2).
- NSD 3.2 accepts at most `tcp-count` connections at once. Further ones wait in the kernel, in
  listen(2)'s backlog of 5. Each connection may be idle for 120 s.
- Since 4.3, NSD can close connections above the limit instead (`tcp-reject-overflow`).

The server is a separate program, so that it takes no time from others (`narrows.testbed.emulated`
starts it). It prints `ready` when it listens.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

Writing = Literal["once", "writev", "cork", "two", "two-nodelay", "byte"]


@dataclass(frozen=True)
class OldServer:
    """The settings of the emulated server."""

    address: str = "10.8.0.1"
    port: int = 53
    writing: Writing = "two"
    slots: int = 100
    """Connections that it serves at once."""
    overflow: Literal["wait", "close"] = "wait"
    """What happens to further connections."""
    backlog: int = 5
    idle_s: float = 120.0
    """Seconds that a connection may be idle."""
    reply_bytes: int = 745
    """Length of a reply; the reply for the root's SOA had 745 bytes in 2012."""
    udp_delay_ms: float = 0.0
    """Time from a query to its reply over UDP."""
    tcp_delay_ms: float = 0.0
    """Time from a query to its reply over TCP."""
    tcp: bool = True
    """Whether it listens for TCP."""
    closes: bool = False
    """Whether it closes connections when a query arrives."""

    def text(self) -> str:
        """The settings as the program's argument."""
        return json.dumps(asdict(self))


def is_query(message: bytes) -> bool:
    """Whether a message asks. A server that answers replies never stops once it meets another."""
    return len(message) >= 17 and not message[2] & 0x80


def reply(query: bytes, size: int) -> bytes:
    """A reply of `size` bytes: the root's SOA, padded with text (RFC 1035, section 4)."""
    end = 12
    while end < len(query) and query[end]:
        end += 1 + query[end]
    question = query[12 : end + 5]
    soa = (
        b"\0" + struct.pack("!HHIH", 6, 1, 86_400, 22) + b"\0\0" + struct.pack("!5I", 1, 2, 3, 4, 5)
    )
    fixed = 12 + len(question) + len(soa)
    text = b""
    # A TXT record costs 11 bytes, and each of its strings one more.
    room = size - fixed - 11
    more = 0
    if room > 0:
        more = 1
        while room > 0:
            part = min(255, room - 1)
            text += bytes([part]) + b"x" * part
            room -= 1 + part
        text = b"\0" + struct.pack("!HHIH", 16, 1, 86_400, len(text)) + text
    header = query[:2] + bytes([0x84 | (query[2] & 1), 0]) + struct.pack("!4H", 1, 1, 0, more)
    return header + question + soa + text


class _Running:
    """The loop: sockets, connections, and timers."""

    def __init__(self, settings: OldServer) -> None:
        self.settings = settings
        self.selector = selectors.DefaultSelector()
        self.due: list[tuple[float, int, Callable[[], object]]] = []
        self.numbers = itertools.count()
        self.input: dict[socket.socket, bytes] = {}
        self.last: dict[socket.socket, float] = {}
        self.accepting = False
        where = (settings.address, settings.port)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(where)
        self.selector.register(self.udp, selectors.EVENT_READ, self.datagram)
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.setblocking(False)
        if settings.tcp:
            self.listener.bind(where)
            self.listener.listen(settings.backlog)
            self.accept_again()

    def run(self) -> None:
        """Serves until something ends the process."""
        while True:
            wait = None if not self.due else max(0.0, self.due[0][0] - time.monotonic())
            for key, _ in self.selector.select(wait):
                key.data()
            while self.due and self.due[0][0] <= time.monotonic():
                heapq.heappop(self.due)[2]()

    def later(self, seconds: float, what: Callable[[], object]) -> None:
        """Calls `what` after some time, or at once if that is zero."""
        if seconds <= 0.0:
            what()
        else:
            heapq.heappush(self.due, (time.monotonic() + seconds, next(self.numbers), what))

    def datagram(self) -> None:
        """Answers over UDP."""
        try:
            query, client = self.udp.recvfrom(65_535)
        except OSError:
            # Linux reports here that an earlier answer reached nobody.
            return
        if is_query(query):
            answer = reply(query, self.settings.reply_bytes)
            self.later(self.settings.udp_delay_ms / 1e3, lambda: self.send(answer, client))

    def send(self, answer: bytes, client: tuple[str, int]) -> None:
        """Answers over UDP, if the client can be reached."""
        with contextlib.suppress(OSError):
            self.udp.sendto(answer, client)

    def accept_again(self) -> None:
        """Accepts connections again once a slot is free."""
        full = self.settings.overflow == "wait" and len(self.input) >= self.settings.slots
        if full and self.accepting:
            self.selector.unregister(self.listener)
        elif not full and not self.accepting:
            self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.accepting = not full

    def accept(self) -> None:
        """Accepts a connection."""
        with contextlib.suppress(OSError):
            made, _ = self.listener.accept()
            if len(self.input) >= self.settings.slots:
                made.close()
                return
            made.setblocking(False)
            self.input[made] = b""
            self.touched(made)
            self.selector.register(made, selectors.EVENT_READ, lambda: self.readable(made))
        self.accept_again()

    def readable(self, made: socket.socket) -> None:
        """Reads from a connection, and answers complete queries."""
        try:
            data = made.recv(65_535)
        except OSError:
            data = b""
        if not data:
            self.close(made)
            return
        self.touched(made)
        self.input[made] += data
        while len(have := self.input[made]) >= 2:
            length = 2 + int.from_bytes(have[:2])
            if len(have) < length:
                break
            query, self.input[made] = have[2:length], have[length:]
            if self.settings.closes or not is_query(query):
                self.close(made)
                return
            self.answer_later(made, reply(query, self.settings.reply_bytes))

    def answer_later(self, made: socket.socket, answer: bytes) -> None:
        """Writes a reply after the delay in the settings."""
        self.later(self.settings.tcp_delay_ms / 1e3, lambda: self.write(made, answer))

    def write(self, made: socket.socket, answer: bytes) -> None:
        """Writes a reply as the settings say."""
        if made not in self.input:
            return
        length, writing = len(answer).to_bytes(2), self.settings.writing
        with contextlib.suppress(OSError):
            if writing == "once":
                made.send(length + answer)
            elif writing == "writev":
                made.sendmsg([length, answer])
            elif writing == "cork":
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                made.send(length)
                made.send(answer)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
            elif writing == "byte":
                made.send(length[:1])
                made.send(length[1:])
                made.send(answer)
            else:
                if writing == "two-nodelay":
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.send(length)
                made.send(answer)

    def touched(self, made: socket.socket) -> None:
        """Restarts the idle time of a connection."""
        now = self.last[made] = time.monotonic()

        def look() -> None:
            if self.last.get(made) == now:
                self.close(made)

        self.later(self.settings.idle_s, look)

    def close(self, made: socket.socket) -> None:
        """Closes a connection and frees its slot."""
        if self.input.pop(made, None) is not None:
            self.last.pop(made)
            self.selector.unregister(made)
            made.close()
            self.accept_again()


def main(text: str) -> None:
    """Serves with the settings in `text`, which `OldServer.text` makes."""
    from narrows.testbed.bed import prefer_this_thread

    prefer_this_thread()
    settings = OldServer(**json.loads(text))
    try:
        running = _Running(settings)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        where = f"{settings.address} port {settings.port}"
        sys.exit(
            f"{where}: {why}; hint: end the program that listens there, or choose another port"
        )
    print("ready", flush=True)
    running.run()
