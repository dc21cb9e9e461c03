"""A DNS server's connections, with the limits on their number and their timeouts.

It behaves like the simulator's server (crates/apps, dns/server.rs): RFC 7766, sections 6 and 7.
Connections that have to wait because of the limit stay in the kernel's queue (listen(2)). TLS has
its own port, but its connections count with the others.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from . import system
from .dns_rows import Told
from .loop import READ, WRITE, Loop
from .tcp_socket import tcp_socket
from .tls import End, server_context

_LARGEST = 1 << 17
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection (socket(7))."""


class _Waiting:
    def __init__(self) -> None:
        self.reply: bytes | None = None


class _Connection:
    def __init__(
        self,
        found: socket.socket,
        client: str,
        place: int,
        busy_s: float | None,
        now: float,
        tls: End | None,
    ) -> None:
        self.socket = found
        self.tls = tls
        self.client = client
        # Its index in the server's table.
        self.place = place
        # Its shorter timeout, if the server was busy when it arrived.
        self.busy_s = busy_s
        self.idle_since = now
        self.read = bytearray()
        self.unsent = bytearray()
        self.asked = 0
        # Queries without a reply, in order.
        self.waiting: list[_Waiting] = []
        # Whether only a part of a query has arrived.
        self.reading = False
        # Whether the server has stopped reading, so that the waiting queries are the last.
        self.closing = False
        # Goes up whenever the timeout starts again, so that older timers do nothing.
        self.turn = 0


class Service:
    """The sockets that wait for connections, and the connections."""

    def __init__(
        self,
        job: Told,
        loop: Loop,
        answer: Callable[[bytes, int | None], bytes],
        service_s: Callable[[], float],
        folder: Path,
    ) -> None:
        """Listens.

        Args:
            job: The server's job.
            loop: The loop of the process.
            answer: Returns a reply, given the query and the multiple to which to pad replies to
                padded queries.
            service_s: Draws a service time.
            folder: A folder for files.

        Raises:
            OSError: The port is taken.
        """
        self._told: Mapping[str, Any] = job["tcp"]
        self._clients: list[str] | None = job["clients"]
        self._loop = loop
        self._answer = answer
        self._service_s = service_s
        self._connections: list[_Connection] = []
        # Indices in the table of connections that are free again, and those with shorter timeouts.
        self._free: list[int] = []
        self._short: dict[int, float] = {}
        self._listening: list[tuple[socket.socket, bool]] = []
        self._accepts = True
        for address in job["addresses"]:
            self._listen(job["namespace"], (address, job["port"]), over_tls=False)
        self._tls: Mapping[str, Any] | None = self._told["tls"]
        self._context: ssl.SSLContext | None = None
        if self._tls is not None:
            pem = folder / f"{job['group']}.pem"
            pem.write_text(self._tls["pem"])
            self._context = server_context(pem, self._tls["tickets"])
            for address in job["addresses"]:
                self._listen(job["namespace"], (address, self._tls["port"]), over_tls=True)

    def _listen(self, namespace: str, address: tuple[str, int], *, over_tls: bool) -> None:
        with system.inside(namespace):
            found = tcp_socket(self._told)
        found.bind(address)
        if self._told["fast_open"] and not over_tls:
            # The number of connections that may wait with data before they are established.
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, self._told["backlog"])
        found.listen(self._told["backlog"])
        self._listening.append((found, over_tls))
        self._loop.watch(found, READ, lambda _events: self._accept())

    def close(self) -> None:
        """Closes all sockets."""
        for found in (
            *(listening for listening, _ in self._listening),
            *(connection.socket for connection in self._connections),
        ):
            self._loop.forget(found)
            found.close()

    # Connections.

    def _is_full(self) -> bool:
        most = self._told["connections"]
        return most is not None and len(self._connections) >= most

    def _accept(self) -> None:
        """Accepts waiting connections, as many as the limit allows."""
        for listening, over_tls in self._listening:
            while not (self._is_full() and self._told["when_full"] == "wait"):
                try:
                    found, (client, _port) = listening.accept()
                except OSError:
                    break
                self._take(found, client, over_tls=over_tls)
        # A listening socket with waiting connections would wake the loop again and again.
        accepts = not (self._is_full() and self._told["when_full"] == "wait")
        if accepts != self._accepts:
            self._accepts = accepts
            for listening, _ in self._listening:
                if accepts:
                    self._loop.watch(listening, READ, lambda _events: self._accept())
                else:
                    self._loop.forget(listening)

    def _take(self, found: socket.socket, client: str, *, over_tls: bool) -> None:
        told = self._told
        if self._clients is not None and client not in self._clients:
            found.close()
            return
        found.setblocking(False)
        most = told["connections_per_client"]
        of_client = sum(connection.client == client for connection in self._connections)
        full = self._is_full()
        if (most is not None and of_client >= most) or (full and told["when_full"] == "reject"):
            found.close()
            return
        if full:
            idle = [connection for connection in self._connections if not connection.waiting]
            if not idle:
                # All connections are busy, so close the new one.
                found.close()
                return
            self._reset(min(idle, key=lambda connection: connection.idle_since))
        limit = told["connections"]
        in_use = len(self._connections) + told["busy_counts_new"]
        share = 0.0 if limit is None else in_use / limit
        shorter = [timeout for level, timeout in told["busy_levels"] if share > level]
        # Use the index that became free last first.
        place = self._free.pop() if self._free else len(self._connections)
        if told["busy_stays"] and place in self._short:
            shorter.append(self._short[place])
        busy = min(shorter, default=None)
        if told["busy_stays"] and busy is not None:
            self._short[place] = busy
        now = self._loop.now()
        tls = None
        if over_tls and self._tls is not None and self._context is not None:
            tls = End(
                self._context,
                is_server=True,
                write=self._tls["write"],
                tickets_apart=self._tls["tickets_apart"],
            )
        connection = _Connection(found, client, place, busy, now, tls)
        self._connections.append(connection)
        self._watch(connection)
        self._close_after(connection, self._timeout(connection, told["first_query_s"]))

    @staticmethod
    def _timeout(connection: _Connection, usual_s: float) -> float:
        return usual_s if connection.busy_s is None else min(connection.busy_s, usual_s)

    def _close_after(self, connection: _Connection, span_s: float) -> None:
        connection.turn += 1
        turn = connection.turn

        def over() -> None:
            if connection.turn == turn:
                self._finish(connection)

        self._loop.at(self._loop.now() + span_s, over)

    def _finish(self, connection: _Connection) -> None:
        """Hangs up once all complete queries are answered (RFC 7766, section 6.2.3)."""
        connection.closing = True
        connection.turn += 1
        if connection.waiting or connection.unsent:
            self._watch(connection)
        else:
            self._hang_up(connection)

    def _reset(self, connection: _Connection) -> None:
        with contextlib.suppress(OSError):
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._hang_up(connection)

    def _hang_up(self, connection: _Connection) -> None:
        """Closes a connection, which makes room for another."""
        connection.turn += 1
        connection.closing = True
        if connection not in self._connections:
            return
        tls = connection.tls
        if tls is not None and tls.is_open and self._tls is not None and self._tls["close_notify"]:
            with contextlib.suppress(OSError):
                connection.socket.send(tls.close())
        self._connections.remove(connection)
        self._free.append(connection.place)
        self._loop.forget(connection.socket)
        connection.socket.close()
        if self._told["when_full"] == "wait":
            self._loop.at(self._loop.now(), self._accept)

    def _watch(self, connection: _Connection) -> None:
        events = (WRITE if connection.unsent else 0) | (0 if connection.closing else READ)
        self._loop.watch(connection.socket, events, partial(self._ready, connection))

    def _ready(self, connection: _Connection, events: int) -> None:
        if events & WRITE and connection.unsent:
            self._flush(connection)
        if events & READ:
            self._receive(connection)

    # Queries.

    def _receive(self, connection: _Connection) -> None:
        while connection.socket.fileno() >= 0:
            try:
                data = connection.socket.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError:
                self._hang_up(connection)
                return
            if not data:
                self._finish(connection)
                return
            if connection.tls is not None:
                data = self._decrypt(connection, connection.tls, data)
            if data and not connection.closing:
                self._read(connection, data)

    def _decrypt(self, connection: _Connection, tls: End, data: bytes) -> bytes:
        begins = not tls.is_open
        if begins and not connection.closing:
            # Each part of a handshake restarts the timeout.
            first_s = self._told["first_query_s"]
            self._close_after(connection, self._timeout(connection, first_s))
        try:
            data, writes = tls.take(data)
        except ssl.SSLError:
            self._reset(connection)
            return b""
        service_s = 0.0 if self._tls is None else self._tls["service_s"]
        if begins and not tls.is_open and writes and service_s and not tls.is_resumed:
            # The answer to a ClientHello takes this time.
            when = self._loop.now() + service_s
            self._loop.at(when, partial(self._write_all, connection, writes))
        else:
            self._write_all(connection, writes)
        return data

    def _read(self, connection: _Connection, data: bytes) -> None:
        connection.read += data
        while len(connection.read) >= 2 and not connection.closing:
            (length,) = struct.unpack_from(">H", connection.read)
            if len(connection.read) < 2 + length:
                break
            asked = bytes(connection.read[2 : 2 + length])
            del connection.read[: 2 + length]
            connection.reading = False
            self._ask(connection, asked)
        half = self._told["half_query_s"]
        begins = connection.read and not connection.reading and not connection.closing
        if begins and half is not None:
            connection.reading = True
            self._close_after(connection, self._timeout(connection, half))

    def _ask(self, connection: _Connection, asked: bytes) -> None:
        told = self._told
        if len(asked) < 12 or asked[2] & 0x80:
            self._hang_up(connection)
            return
        if told["on_query"] != "answer":
            (self._reset if told["on_query"] == "reset" else self._hang_up)(connection)
            return
        connection.asked += 1
        waiting = _Waiting()
        connection.waiting.append(waiting)
        connection.turn += 1
        if told["queries_per_connection"] == connection.asked:
            connection.closing = True
        extra_s, padding = told["extra_service_s"], None
        if connection.tls is not None and self._tls is not None:
            extra_s, padding = self._tls["extra_service_s"], self._tls["padding"]
        answer = self._answer(asked, padding)
        when = self._loop.now() + self._service_s() + extra_s
        self._loop.at(when, partial(self._is_ready, connection, waiting, answer))

    def _is_ready(self, connection: _Connection, waiting: _Waiting, answer: bytes) -> None:
        if connection.socket.fileno() < 0:
            return
        waiting.reply = answer
        while connection.waiting:
            first = connection.waiting[0]
            found = first if self._told["in_order"] else waiting
            if found.reply is None or found not in connection.waiting:
                break
            connection.waiting.remove(found)
            self._write(connection, found.reply)
        if connection.waiting or connection.unsent:
            return
        self._is_idle(connection)

    def _is_idle(self, connection: _Connection) -> None:
        """Starts the idle time of a connection whose last reply has left."""
        if connection.closing:
            self._hang_up(connection)
        elif not connection.reading:
            connection.idle_since = self._loop.now()
            self._close_after(connection, self._timeout(connection, self._told["idle_s"]))

    def _write(self, connection: _Connection, answer: bytes) -> None:
        length = struct.pack(">H", len(answer))
        parts = [length, answer] if self._told["length_apart"] else [length + answer]
        if connection.tls is not None:
            parts = [connection.tls.give(part) for part in parts]
        self._write_all(connection, parts)

    def _write_all(self, connection: _Connection, parts: Iterable[bytes]) -> None:
        if connection.socket.fileno() < 0:
            return
        for part in parts:
            waits = bool(connection.unsent)
            connection.unsent += part
            if not waits:
                self._send(connection)
        if connection.unsent:
            self._watch(connection)

    def _send(self, connection: _Connection) -> None:
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            return
        except OSError:
            # The connection has ended, and nobody waits for the rest.
            connection.unsent.clear()
            return
        del connection.unsent[:sent]

    def _flush(self, connection: _Connection) -> None:
        self._send(connection)
        if connection.unsent:
            return
        if connection.closing and not connection.waiting:
            self._hang_up(connection)
            return
        self._watch(connection)
        if not connection.waiting:
            self._is_idle(connection)
