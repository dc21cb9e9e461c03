"""A server that misbehaves as the query's first label says.

    twice      its reply comes twice
    slow       its reply comes after 0.6 seconds
    once       the first datagram of a name is not answered, as if it were lost
    changing   no two replies are alike
    other-id   a reply with another ID comes first, from the same address and port
    garbage    bytes that are no reply come first
    quiet      never answered

Any other name gets a reply of TXT records with the size in the second label. Over TCP, the same
names get the same replies, each once.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator

import dns.message
import dns.rrset

from tests.network import Namespace

from .clients import family


class Unruly:
    """Listens on some addresses, and counts the queries."""

    def __init__(self, space: Namespace, udp: list[str], tcp: list[str]) -> None:
        self.asked: Counter[str] = Counter()
        """The number of datagrams, by name."""
        self.numbers = itertools.count()
        self.stop = threading.Event()
        self.sockets: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        with space.inside():
            for address in udp:
                datagrams = socket.socket(family(address), socket.SOCK_DGRAM)
                datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
                datagrams.bind((address, 53))
                self.serve(self.answer_datagrams, datagrams)
            for address in tcp:
                listener = socket.socket(family(address), socket.SOCK_STREAM)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, 53))
                listener.listen(64)
                self.serve(self.accept, listener)

    def serve(self, function: object, served: socket.socket) -> None:
        """Starts a thread for a socket."""
        served.settimeout(0.1)
        self.sockets.append(served)
        thread = threading.Thread(target=function, args=(served,), daemon=True)  # type: ignore[arg-type]
        self.threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Ends all threads."""
        self.stop.set()
        for thread in self.threads:
            thread.join(5)
        for served in self.sockets:
            served.close()

    def reply(self, wire: bytes) -> tuple[list[str], bytes]:
        """The labels of a query's name, and its reply."""
        query = dns.message.from_wire(wire)
        name = query.question[0].name
        labels = [label.decode() for label in name.labels]
        size = int(labels[1]) if len(labels) > 1 and labels[1].isdigit() else 60
        number = next(self.numbers) if labels[0] == "changing" else 0
        response = dns.message.make_response(query, our_payload=65535)
        text = f"{number:08d}" * (max(0, size - 60) // 8)
        strings = [text[at : at + 240] for at in range(0, len(text), 240)] or ["-"]
        for at in range(0, len(strings), 8):
            data = " ".join(f'"{string}"' for string in strings[at : at + 8])
            response.answer.append(dns.rrset.from_text(name, 60, "IN", "TXT", data))
        return labels, response.to_wire(max_size=65535)

    def answer_datagrams(self, datagrams: socket.socket) -> None:
        """The UDP side."""
        while not self.stop.is_set():
            try:
                wire, client = datagrams.recvfrom(65535)
            except TimeoutError:
                continue
            try:
                labels, reply = self.reply(wire)
            except (
                Exception
            ):  # what the gateway lets through by mistake must not end the test's server
                self.asked["?"] += 1
                continue
            name = ".".join(labels)
            self.asked[name] += 1
            kind = labels[0]
            if kind == "quiet" or (kind == "once" and self.asked[name] == 1):
                continue
            if kind == "slow":
                timer = threading.Timer(0.6, self.late, (datagrams, reply, client))
                timer.daemon = True
                timer.start()
                continue
            if kind == "other-id":
                datagrams.sendto(
                    (int.from_bytes(reply[:2]) ^ 0x5555).to_bytes(2) + reply[2:], client
                )
            if kind == "garbage":
                datagrams.sendto(reply[:2] + b"\0\0garbage", client)
                datagrams.sendto(reply[:7], client)
            for _ in range(2 if kind == "twice" else 1):
                datagrams.sendto(reply, client)

    def late(self, datagrams: socket.socket, reply: bytes, client: object) -> None:
        """Sends a reply unless the server is ending."""
        if not self.stop.is_set():
            datagrams.sendto(reply, client)  # type: ignore[call-overload]

    def accept(self, listener: socket.socket) -> None:
        """The TCP side."""
        while not self.stop.is_set():
            try:
                stream, _ = listener.accept()
            except TimeoutError:
                continue
            self.serve(self.answer_stream, stream)

    def answer_stream(self, stream: socket.socket) -> None:
        """One connection."""
        have = b""
        with contextlib.suppress(OSError):
            while not self.stop.is_set():
                try:
                    part = stream.recv(65535)
                except TimeoutError:
                    continue
                if not part:
                    break
                have += part
                while len(have) >= 2 and len(have) >= 2 + int.from_bytes(have[:2]):
                    length = int.from_bytes(have[:2])
                    labels, reply = self.reply(have[2 : 2 + length])
                    have = have[2 + length :]
                    if labels[0] == "slow":
                        time.sleep(0.6)
                    if labels[0] != "quiet":
                        stream.sendall(len(reply).to_bytes(2) + reply)
        stream.close()


@contextlib.contextmanager
def unruly(space: Namespace, udp: list[str], tcp: list[str]) -> Iterator[Unruly]:
    """Runs a server until the block ends."""
    made = Unruly(space, udp, tcp)
    try:
        yield made
    finally:
        made.close()
