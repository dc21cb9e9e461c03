"""The TCP connections of a group of resolver workers: new for a query, or kept and reused.

They behave like the simulator's clients (crates/apps, dns/connections.rs), but with sockets. The
kernel gives the numbers of packets (`TCP_INFO`). This module computes their bytes from TCP's
payload, which is TLS's records if there is TLS, and from TCP's headers without the options for
selective acknowledgements.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from . import system
from .dns_messages import padded
from .dns_rows import Attempt, Told
from .loop import READ, WRITE, Loop
from .stamps import ROOM, stamp, wants_stamps
from .tcp_info import tcp_info
from .tcp_socket import tcp_socket
from .tls import End, client_context

_LARGEST = 1 << 17
_IP_AND_TCP = 40
_TIMESTAMPS, _SACK, _SCALING, _SYN_DATA = 1, 2, 4, 32
"""Bits of tcpi_options (linux/tcp.h)."""

_TCP_FASTOPEN_CONNECT = 30


class Asker(Protocol):
    """Asks over the connections, and hears the outcome of each attempt."""

    def on_written(self, attempt: Attempt) -> None:
        """Called when the attempt's query has left; the wait for its answer begins."""

    def on_reply(self, attempt: Attempt, now: float, first_byte_s: float) -> None:
        """Called when the attempt's answer has arrived."""

    def on_failed(self, attempt: Attempt, how: str) -> None:
        """Called when its connection has ended: `refused`, `closed`, `reset` or `timed-out`."""


class _Connection:
    def __init__(
        self, found: socket.socket, owner: int | None, opened_s: float, only: Attempt | None
    ) -> None:
        self.socket = found
        self.owner = owner
        self.opened_s = opened_s
        self.only = only
        """The attempt that all its packets count for; None if it serves several queries."""
        self.established = False
        """Whether queries can leave: the handshakes of TCP, and of TLS if used, are over."""
        self.out_of_order = 0
        """Segments so far that had to wait for a lost one."""
        self.tls: End | None = None
        # Whether TCP's handshake is over.
        self.connected = False
        # The number of the query that left with the SYN (RFC 7413).
        self.early: int | None = None
        # Whether the kernel waits for the first data, which travel with the SYN.
        self.takes_data = False
        # Whether the server's FIN has arrived.
        self.ended = False
        self.closing = False
        self.queries = 0
        # What had crossed at the last count of packets, if there may be several queries.
        self.counted: _Crossed = _NOTHING
        # Attempts without a reply, by number, each with its message and what had crossed before.
        self.waiting: dict[int, tuple[Attempt, bytes, _Crossed]] = {}
        # Attempts whose time is up, by number.
        self.left: dict[int, Attempt] = {}
        self.read = bytearray()
        self.first_byte_s = 0.0
        self.unsent = bytearray()
        # Goes up whenever the idle time starts again, so that older timers do nothing.
        self.turn = 0


_Crossed = tuple[int, int, int, int]
"""IP packets sent, their bytes, IP packets received, their bytes."""

_NOTHING: _Crossed = (0, 0, 0, 0)


class Connections:
    """The connections of a group."""

    def __init__(self, job: Told, loop: Loop, numbers: random.Random, asker: Asker) -> None:
        self._job = job
        self._told: Mapping[str, Any] = job["tcp"]
        self._kept: Mapping[str, Any] | None = job["tcp"]["reuse"]
        self._loop = loop
        self._random = numbers
        self._asker = asker
        self._tls: Mapping[str, Any] | None = job["tcp"]["tls"]
        self._context = None if self._tls is None else client_context()
        self._session: ssl.SSLSession | None = None
        self._open: dict[int | None, list[_Connection]] = {}
        # For each attempt without a reply, its connection and its number there.
        self._waiting: dict[Attempt, tuple[_Connection, int]] = {}

    def ask(self, worker: int, attempt: Attempt, message: bytes) -> bool:
        """Asks on an open connection, or a new one.

        Args:
            worker: The worker that asks.
            attempt: The attempt; this fills in its facts.
            message: The query; this replaces its number.

        Returns:
            Whether the connection is already established.
        """
        owner = None if self._kept is not None and self._kept["shared"] else worker
        connection = self._usable(owner) or self._dial(owner, attempt)
        number = self._random.getrandbits(16)
        while number in connection.waiting or number in connection.left:
            number = self._random.getrandbits(16)
        if self._tls is not None and self._tls["padding"] is not None:
            message = padded(message, self._tls["padding"])
        written = struct.pack(">HH", len(message), number) + message[2:]
        before = self._crossed(connection) if connection.queries else _NOTHING
        connection.queries += 1
        connection.turn += 1
        connection.waiting[number] = (attempt, written, before)
        self._waiting[attempt] = (connection, number)
        attempt.reused = connection.queries > 1
        leaves = connection.established or connection.takes_data
        attempt.handshakes = 0 if leaves else self._round_trips
        if leaves:
            if connection.takes_data:
                connection.takes_data, connection.early = False, number
            self._write(connection, written)
        return leaves

    @property
    def _round_trips(self) -> int:
        """The number of round trips before a new connection's first query."""
        return 1 if self._tls is None else 2

    def leave(self, attempt: Attempt) -> None:
        """Gives an attempt up, and closes its connection unless other attempts wait there."""
        found = self._waiting.pop(attempt, None)
        if found is None:
            return
        connection, number = found
        self._count(connection, attempt)
        del connection.waiting[number]
        connection.left[number] = attempt
        if connection.established and self._kept is not None and self._kept["after_silence"]:
            self._release(connection)
        elif not connection.waiting and connection.established:
            self._close(connection)
        elif not connection.waiting:
            self._forget(connection)

    def _usable(self, owner: int | None) -> _Connection | None:
        kept = self._kept
        if kept is None:
            return None
        for connection in self._open.get(owner, ()):
            if (
                not connection.closing
                and self._has_turns(connection)
                and (kept["pipelined"] or not connection.waiting)
            ):
                return connection
        return None

    def _has_turns(self, connection: _Connection) -> bool:
        """Whether a connection may take another query."""
        most = None if self._kept is None else self._kept["queries"]
        return most is None or connection.queries < most

    def _dial(self, owner: int | None, attempt: Attempt) -> _Connection:
        told = self._told
        with system.inside(self._job["client"]):
            found = tcp_socket(told)
        wants_stamps(found)
        # connect(2) chooses the port, so that one port can serve several servers (ip(7)).
        found.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        found.bind((told["client_address"], 0))
        only = attempt if self._kept is None else None
        connection = _Connection(found, owner, self._loop.now(), only)
        if self._context is not None:
            connection.tls = End(self._context, session=self._session)
        self._open.setdefault(owner, []).append(connection)
        if told["fast_open"]:
            found.setsockopt(socket.IPPROTO_TCP, _TCP_FASTOPEN_CONNECT, 1)
        try:
            found.connect((told["server_address"], self._job["port"]))
            # If the server's cookie is known, the kernel now waits for data.
            connection.takes_data = bool(told["fast_open"])
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EADDRINUSE):
                raise RuntimeError(
                    f"{self._job['group']}: no port is left; hint: reuse connections, or ask less "
                    "often"
                ) from None
            # There is no route. The attempt times out; the socket would stay ready forever.
            return connection
        self._loop.watch(found, WRITE, lambda events: self._ready(connection, events))
        return connection

    def _ready(self, connection: _Connection, events: int) -> None:
        if not connection.connected and not self._connect(connection):
            return
        if connection.unsent and events & WRITE:
            self._flush(connection)
            if not connection.unsent:
                self._watch(connection)
        if events & READ:
            self._receive(connection)

    def _connect(self, connection: _Connection) -> bool:
        """Notes the end of TCP's handshake, if it is over, and starts TLS or sends queries."""
        error = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._fail(connection, "refused" if error == errno.ECONNREFUSED else "timed-out")
            return False
        try:
            connection.socket.getpeername()
        except OSError:
            # The event belongs to another socket that had the same number.
            return False
        connection.connected = True
        self._watch(connection)
        if connection.tls is not None:
            self._write_all(connection, connection.tls.begin())
        else:
            self._opened(connection)
        return True

    def _opened(self, connection: _Connection) -> None:
        """Sends the waiting queries, because the handshakes are over."""
        connection.established = True
        handshake_ms = 1e3 * (self._loop.now() - connection.opened_s)
        early = connection.early
        if early is not None:
            facts = tcp_info(connection.socket)
            if not facts.get("options", 0) & _SYN_DATA and early in connection.waiting:
                # The server did not accept the query in the SYN.
                attempt, _, _ = connection.waiting[early]
                attempt.handshakes, attempt.handshake_ms = 1, handshake_ms
        if connection.unsent:
            self._flush(connection)
        for number, (attempt, written, _) in list(connection.waiting.items()):
            if number == early:
                continue
            attempt.handshake_ms = handshake_ms
            self._write(connection, written)
            self._asker.on_written(attempt)

    def _write(self, connection: _Connection, written: bytes) -> None:
        parts = [written[:2], written[2:]] if self._told["length_apart"] else [written]
        if connection.tls is not None:
            parts = [connection.tls.give(part) for part in parts]
        self._write_all(connection, parts)

    def _write_all(self, connection: _Connection, parts: Iterable[bytes]) -> None:
        for part in parts:
            waits = bool(connection.unsent)
            connection.unsent += part
            if not waits:
                self._flush(connection)
                if connection.unsent:
                    self._watch(connection)

    def _flush(self, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.unsent)
        except OSError:
            # There is no room, or the connection is over; reading will show how it ended.
            return
        del connection.unsent[:sent]

    def _watch(self, connection: _Connection) -> None:
        events = READ | WRITE if connection.unsent else READ
        self._loop.watch(connection.socket, events, lambda ready: self._ready(connection, ready))

    def _receive(self, connection: _Connection) -> None:
        while connection.socket.fileno() >= 0:
            try:
                data, ancillary, _, _ = connection.socket.recvmsg(_LARGEST, ROOM)
            except BlockingIOError:
                return
            except OSError as error:
                reset = error.errno in (errno.ECONNRESET, errno.EPIPE)
                self._fail(connection, "reset" if reset else "timed-out")
                return
            if not data:
                connection.ended = True
                self._fail(connection, "closed")
                return
            came_s = stamp(ancillary, self._job["realtime_origin"])
            out_of_order = tcp_info(connection.socket).get("out_of_order", 0)
            if out_of_order != connection.out_of_order:
                # What waited for a lost segment has the stamp of its own arrival: the kernel joins
                # it with the lost one, and keeps its stamp (`tcp_try_coalesce`).
                connection.out_of_order, came_s = out_of_order, None
            now = self._loop.now() if came_s is None else came_s
            if connection.tls is not None:
                data = self._decrypt(connection, connection.tls, data)
            self._take(connection, data, now)

    def _decrypt(self, connection: _Connection, tls: End, data: bytes) -> bytes:
        try:
            data, writes = tls.take(data)
        except ssl.SSLError:
            # The other end does not speak TLS, or refuses, so the connection is useless.
            self._fail(connection, "closed")
            return b""
        self._write_all(connection, writes)
        if tls.is_open and not connection.established:
            self._opened(connection)
        return data

    def _take(self, connection: _Connection, data: bytes, now: float) -> None:
        if data and not connection.read:
            connection.first_byte_s = now
        connection.read += data
        while len(connection.read) >= 4:
            length, number = struct.unpack_from(">HH", connection.read)
            if len(connection.read) < 2 + length:
                return
            del connection.read[: 2 + length]
            first_byte_s, connection.first_byte_s = connection.first_byte_s, now
            self._answered(connection, number, now, first_byte_s)

    def _answered(
        self, connection: _Connection, number: int, now: float, first_byte_s: float
    ) -> None:
        attempt = connection.left.pop(number, None)
        if number in connection.waiting:
            attempt, _, _ = connection.waiting[number]
            self._count(connection, attempt)
            del self._waiting[attempt], connection.waiting[number]
        if attempt is None:
            return
        if connection.tls is not None and self._tls is not None and self._tls["resume"]:
            self._session = connection.tls.session
        self._release(connection)
        self._asker.on_reply(attempt, now, first_byte_s)

    def _release(self, connection: _Connection) -> None:
        """Decides what happens to a connection once a reply has arrived or nobody wants it."""
        if connection.waiting or connection.closing:
            return
        kept = self._kept
        if kept is None or kept["idle_s"] == 0 or not self._has_turns(connection):
            self._close(connection)
        elif kept["idle_s"] is not None:
            connection.turn += 1
            turn = connection.turn

            def idle() -> None:
                if connection.turn == turn and not connection.closing:
                    self._close(connection)

            self._loop.at(self._loop.now() + kept["idle_s"], idle)

    def _close(self, connection: _Connection) -> None:
        """Closes the client's direction of a connection, and waits for the server's FIN."""
        connection.closing = True
        with contextlib.suppress(OSError):
            connection.socket.shutdown(socket.SHUT_WR)

    def _fail(self, connection: _Connection, how: str) -> None:
        waiting = [attempt for attempt, _, _ in connection.waiting.values()]
        if waiting:
            # The oldest query's attempt takes all packets; nothing is left to count for the others.
            self._count(connection, waiting[0])
        connection.waiting.clear()
        self._forget(connection)
        for attempt in waiting:
            del self._waiting[attempt]
        for attempt in waiting:
            self._asker.on_failed(attempt, how)

    def _forget(self, connection: _Connection) -> None:
        """Forgets a connection that has ended."""
        connection.closing = True
        if connection.ended:
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
        if connection.only is not None:
            self._count(connection, connection.only)
        self._loop.forget(connection.socket)
        connection.socket.close()
        self._open[connection.owner].remove(connection)

    def finish(self) -> None:
        """Counts the packets of connections that are still open."""
        for connections in self._open.values():
            for connection in connections:
                if connection.only is not None:
                    self._count(connection, connection.only)

    def _count(self, connection: _Connection, attempt: Attempt) -> None:
        """Counts packets for an attempt that ends: all packets of a connection for one query.

        On a kept connection, it counts what has crossed since the oldest waiting query was asked,
        except what counts for another attempt. The simulator does the same.
        """
        now = self._crossed(connection)
        since: Iterable[int] = _NOTHING
        if connection.only is None:
            _, _, before = next(iter(connection.waiting.values()))
            since = map(max, before, connection.counted)
            connection.counted = now
        crossed = [end - begin for end, begin in zip(now, since, strict=True)]
        attempt.sent = (crossed[0], crossed[1])
        attempt.received = (crossed[2], crossed[3])

    def _crossed(self, connection: _Connection) -> _Crossed:
        facts = tcp_info(connection.socket)
        if not facts:
            return _NOTHING
        sent, received = facts["segs_out"], facts["segs_in"]
        if not connection.connected:
            # A SYN has all options, and the reset that refuses it has none.
            return sent, sent * (_IP_AND_TCP + 20), received, received * _IP_AND_TCP
        # It may have arrived before the process reads it.
        connection.ended |= facts["fin_received"]
        options = facts["options"]
        stamped = bool(options & _TIMESTAMPS)
        segment = _IP_AND_TCP + (12 if stamped else 0)
        # A SYN's other options: MSS; SACK, which costs nothing beside timestamps; window scale.
        syn = 4 + (4 if options & _SACK and not stamped else 0) + (4 if options & _SCALING else 0)
        return (
            sent,
            sent * segment + syn + facts["bytes_sent"],
            received,
            # The kernel counts a FIN as a byte.
            received * segment + syn + facts["bytes_received"] - connection.ended,
        )


_BIND_ADDRESS_NO_PORT = 24
