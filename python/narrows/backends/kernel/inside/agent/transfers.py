"""Zone transfers over the kernel's sockets: secondaries that fetch a zone.

They behave like the simulator's (`transfer.rs`). The server's retransmissions are those that its
host counts during a transfer (`RetransSegs`, `TCPTimeouts`), so the host's other retransmissions at
that time count too.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from . import system
from .counters import Counters
from .dns_messages import transfer_query
from .goodput import Goodput
from .loop import READ, WRITE, Loop
from .tcp_socket import tcp_socket

_LARGEST = 1 << 17


class Transfers:
    """A group of secondaries."""

    def __init__(
        self, job: Mapping[str, Any], loop: Loop, seed: str, done: Callable[[], None]
    ) -> None:
        """Starts each secondary at its times; calls `done` when all transfers are over."""
        self.job = job
        self.loop = loop
        self.rows: list[dict[str, Any]] = []
        self.query = transfer_query(job["query"], job["mark"])
        self.counters = Counters(job["server"])
        self.goodput = Goodput(job["goodput_s"], loop)
        self._done = done
        self._left = len(job["secondaries"]) * len(job["at_s"])
        for number, told in enumerate(job["secondaries"]):
            _Secondary(self, told, random.Random(f"{seed} {number}"))

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """A row for each transfer that has begun."""
        return {"transfers": self.rows}

    def on_end(self) -> None:
        """Called when a transfer is over."""
        self._left -= 1
        if not self._left:
            self._done()


class _Secondary:
    def __init__(self, group: Transfers, told: Mapping[str, Any], numbers: random.Random) -> None:
        self._group = group
        self._told = told
        self._random = numbers
        self._due = 0
        self._waiting = 0
        self._socket: socket.socket | None = None
        self._row: dict[str, Any] = {}
        self._read = bytearray()
        self._before = (0, 0)
        self._wait()

    def _wait(self) -> None:
        times = self._group.job["at_s"]
        if self._due < len(times):
            at = times[self._due] + self._group.job["spread_s"] * self._random.random()
            self._group.loop.at(max(at, self._group.loop.now()), self._is_due)

    def _is_due(self) -> None:
        self._due += 1
        self._wait()
        if self._socket is not None:
            self._waiting += 1
        else:
            self._begin()

    def _begin(self) -> None:
        told, job = self._told, self._group.job
        with system.inside(told["namespace"]):
            found = tcp_socket(job)
        found.bind((told["address"], 0))
        self._socket = found
        self._read.clear()
        self._before = self._group.counters.resent()
        self._row = {
            "group": job["group"],
            "secondary": told["name"],
            "transfer": self._due - self._waiting - 1,
            "start_s": self._group.loop.now(),
            "established_s": None,
            "first_s": None,
            "end_s": None,
            "fate": "unfinished",
            "messages": 0,
            "bytes": 0,
            "segments_retransmitted": 0,
            "timeouts": 0,
        }
        self._group.rows.append(self._row)
        with contextlib.suppress(BlockingIOError):
            found.connect((job["server_address"], job["port"]))
        self._group.loop.watch(found, WRITE, partial(self._opened, found))

    def _opened(self, found: socket.socket, _events: int) -> None:
        error = found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._end("refused" if error == errno.ECONNREFUSED else "timed-out")
            return
        self._row["established_s"] = self._group.loop.now()
        # A query fits in the buffer of a new connection.
        found.send(struct.pack(">H", len(self._group.query)) + self._group.query)
        self._group.loop.watch(found, READ, partial(self._receive, found))

    def _receive(self, found: socket.socket, _events: int) -> None:
        try:
            data = found.recv(_LARGEST)
        except BlockingIOError:
            return
        except OSError as error:
            self._end("reset" if error.errno == errno.ECONNRESET else "timed-out")
            return
        if not data:
            self._end("closed")
            return
        self._group.goodput.bytes[0] += len(data)
        self._read += data
        while len(self._read) >= 2:
            length = 2 + struct.unpack_from(">H", self._read)[0]
            if len(self._read) < length:
                return
            del self._read[:length]
            row = self._row
            row["first_s"] = self._group.loop.now() if row["first_s"] is None else row["first_s"]
            row["messages"] += 1
            row["bytes"] += length
            if row["messages"] == self._group.job["messages"]:
                row["end_s"] = self._group.loop.now()
                self._end("whole")
                return

    def _end(self, fate: str) -> None:
        self._row["fate"] = fate
        now, before = self._group.counters.resent(), self._before
        self._row["segments_retransmitted"] = now[0] - before[0]
        self._row["timeouts"] = now[1] - before[1]
        if self._socket is not None:
            self._group.loop.forget(self._socket)
            self._socket.close()
            self._socket = None
        self._group.on_end()
        if self._waiting:
            self._waiting -= 1
            self._begin()
