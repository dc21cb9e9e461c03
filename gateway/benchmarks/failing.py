"""A DNS server that fails over UDP and counts clients over TCP, to see what clients do then."""

from __future__ import annotations

import select
import socket
import threading

from .lab import Link
from .wire import entered

PATIENCE_S = 0.1
"""How long to wait for a connection that a client opens at the end."""


class Failing:
    """Does not answer queries over UDP, or answers with these flags; accepts connections.

    Attributes:
        port: The port at the server's address of the link.
        datagrams: The number of queries over UDP.
        connections: The number of connections over TCP, whatever was asked on them.
    """

    def __init__(self, link: Link, family: int, flags: bytes) -> None:
        """`flags` are octets 3 and 4 of the header (RFC 1035, 4.1.1); empty: no reply."""
        self._link, self._family, self._flags = link, family, flags
        self.port = self.datagrams = self.connections = 0

    def __enter__(self) -> Failing:
        self._udp, self._tcp = entered(self._link.namespace, self._sockets)
        self._ends, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()
        self._thread.join()
        for each in (self._udp, self._tcp, self._ends):
            each.close()

    def _sockets(self) -> tuple[socket.socket, socket.socket]:
        family = socket.AF_INET if self._family == 4 else socket.AF_INET6
        address = self._link.server if self._family == 4 else self._link.server6
        tcp = socket.create_server((address, 0), family=family)
        self.port = tcp.getsockname()[1]
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.bind((address, self.port))
        return udp, tcp

    def _serve(self) -> None:
        going = True
        while going:
            # After the end, packets that are under way still count.
            ready, _, _ = select.select([self._udp, self._tcp, self._ends], [], [])
            going = self._ends not in ready
            if not going:
                ready, _, _ = select.select([self._udp, self._tcp], [], [], PATIENCE_S)
            if self._udp in ready:
                query, client = self._udp.recvfrom(65_535)
                self.datagrams += 1
                if self._flags:
                    self._udp.sendto(query[:2] + self._flags + query[4:], client)
            if self._tcp in ready:
                self._tcp.accept()[0].close()
                self.connections += 1
