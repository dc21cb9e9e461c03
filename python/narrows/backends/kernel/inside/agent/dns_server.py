"""A DNS server that answers each query after its service time, like the simulator's.

The name in a query determines the reply (`dns_messages`); any other name gets NXDOMAIN. Over UDP,
the server truncates a reply that is longer than the client accepts or the server sends.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from . import system
from .dns_messages import (
    asked_name,
    header,
    is_padded,
    padded_length,
    query,
    reply,
    truncated,
)
from .dns_rows import Told
from .dns_service import Service
from .loop import READ, Loop

_LARGEST = 65535
_NXDOMAIN = 0x8003


class Answers:
    """The replies of a server, by the names in the queries."""

    def __init__(self, job: Told) -> None:
        self._payload: int = job["udp_payload"]
        self._by_name: dict[bytes, Mapping[str, Any]] = {}
        for each in job["exchanges"]:
            asked = query(0, each["query"], each["payload"], each["mark"], each["longest_name"])
            self._by_name[asked_name(asked)] = each

    def whole(self, asked: bytes, padding: int | None) -> bytes:
        """The whole reply, as sent over TCP.

        Args:
            asked: The query.
            padding: Pads replies to padded queries to a multiple of this many bytes; None for no
                padding.
        """
        each = self._by_name.get(asked_name(asked))
        if each is None:
            return _unknown(asked)
        if padding is not None and is_padded(asked):
            return reply(asked, padded_length(each["reply"], padding))
        return reply(asked, each["reply"])

    def over_udp(self, asked: bytes) -> bytes:
        """The reply over UDP (RFC 2181, section 9)."""
        each = self._by_name.get(asked_name(asked))
        if each is None:
            return _unknown(asked)
        most = min(self._payload, each["payload"])
        if each["reply"] <= most:
            return reply(asked, each["reply"])
        shorter = each["over_udp"]
        if shorter is not None and shorter["bytes"] <= most:
            made = truncated if shorter["truncated"] else reply
            return made(asked, shorter["bytes"])
        return truncated(asked, len(asked))


class Server:
    """Answers each query after a service time; no query waits for another."""

    def __init__(self, job: Told, loop: Loop, seed: str, folder: Path) -> None:
        """Listens.

        Args:
            job: The server's job.
            loop: The loop of the process.
            seed: The seed of the service times.
            folder: A folder for files.

        Raises:
            OSError: A port is taken.
        """
        self._job = job
        self._loop = loop
        self._random = random.Random(seed)
        self._answers = Answers(job)
        # The addresses that it answers; None for all.
        self._clients: list[str] | None = job["clients"]
        for address in job["addresses"]:
            with system.inside(job["namespace"]):
                found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            found.bind((address, job["port"]))
            loop.watch(found, READ, partial(self._receive, found))
        if job["tcp"] is not None:
            self._service = Service(job, loop, self._answers.whole, self._service_s, folder)

    def _service_s(self) -> float:
        wait: float = self._job["service_s"]
        if self._job["service_jitter_s"]:
            wait += self._random.expovariate(1.0 / self._job["service_jitter_s"])
        return wait

    def _receive(self, found: socket.socket, _events: int) -> None:
        while True:
            try:
                asked, peer = found.recvfrom(_LARGEST)
            except OSError:
                return
            if len(asked) < 12 or asked[2] & 0x80:
                continue
            if self._clients is not None and peer[0] not in self._clients:
                continue
            answer = self._answers.over_udp(asked)
            wait = self._service_s()
            if wait:
                self._loop.at(self._loop.now() + wait, partial(self._send, found, answer, peer))
            else:
                self._send(found, answer, peer)

    def _send(self, found: socket.socket, answer: bytes, peer: Any) -> None:
        try:
            found.sendto(answer, peer)
        except OSError:
            # The host's full queue loses the reply, like a full queue on the way.
            return


def _unknown(asked: bytes) -> bytes:
    name = asked_name(asked)
    return asked[:2] + header(0, _NXDOMAIN, 0)[2:] + asked[12 : 16 + len(name)]
