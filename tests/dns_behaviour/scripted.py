"""A DNS server that answers, or treats its clients otherwise, as a case says."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

from ..network import Namespace
from .cases import LATE, LONG, ROOT, Case, zone

SO_LINGER_RESET = struct.pack("ii", 1, 0)


@dataclass
class Connection:
    """A TCP connection of a client."""

    case: Case
    socket: socket.socket
    buffer: bytes = b""


@dataclass
class Scripted:
    """A server that listens at one address per case, in one thread."""

    space: Namespace
    places: dict[str, Case]
    """The case of each address."""
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    later: list[tuple[float, int, Connection, bytes]] = field(default_factory=list)
    number: itertools.count[int] = field(default_factory=itertools.count)
    running: bool = True

    def __post_init__(self) -> None:
        with self.space.inside():
            for address, case in self.places.items():
                if case.udp != "closed":
                    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    udp.bind((address, 53))
                    self.watch(udp, (self.on_datagram, case))
                if case.tcp != "refuse":
                    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
                    tcp.bind((address, 53))
                    tcp.listen(64)
                    self.watch(tcp, (self.on_connection, case))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def watch(self, sock: socket.socket, data: object) -> None:
        """Watches a socket for data."""
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ, data)

    def run(self) -> None:
        """Serves."""
        while self.running:
            wait = min(0.1, self.later[0][0] - time.monotonic()) if self.later else 0.1
            for key, _ in self.selector.select(max(0, wait)):
                handle, about = key.data
                handle(key.fileobj, about)
            while self.later and self.later[0][0] <= time.monotonic():
                _, _, connection, message = heapq.heappop(self.later)
                self.write(connection, message)

    def on_datagram(self, sock: socket.socket, case: Case) -> None:
        """A query over UDP."""
        wire, client = sock.recvfrom(65535)
        # The first label's length, and its first letters (RFC 1035, 4.1.2).
        if case.udp == "drop" or (case.udp == "warm" and wire[13:17].lower() == b"drop"):
            return
        with contextlib.suppress(dns.exception.DNSException):
            if case == ROOT:
                here = sock.getsockname()[0]
                servers = {zone(c): a for a, c in self.at(here).items()}
                sock.sendto(referral(wire, servers, here), client)
            else:
                sock.sendto(reply(wire, case.udp), client)

    def at(self, address: str) -> dict[str, Case]:
        """The cases of one client by address, given any of its addresses."""
        client = address.rsplit(".", 1)[0] + "."
        return {place: case for place, case in self.places.items() if place.startswith(client)}

    def on_connection(self, sock: socket.socket, case: Case) -> None:
        """A connection whose handshake is over."""
        accepted, _ = sock.accept()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(case, accepted)
        self.watch(accepted, (self.on_stream, connection))

    def on_stream(self, sock: socket.socket, connection: Connection) -> None:
        """Handles bytes of a connection, or its end."""
        try:
            data = sock.recv(65535)
        except OSError:
            data = b""
        if not data:
            self.end(connection)
            return
        connection.buffer += data
        case = connection.case
        while len(connection.buffer) >= 2:
            size = int.from_bytes(connection.buffer[:2])
            if len(connection.buffer) < 2 + size:
                return
            query, connection.buffer = (
                connection.buffer[2 : 2 + size],
                connection.buffer[2 + size :],
            )
            if case.tcp == "close":
                self.end(connection)
                return
            if case.tcp == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, SO_LINGER_RESET)
                self.end(connection)
                return
            if case.tcp == "answer":
                message = reply(query, "answer")
                if case.asks == "together":
                    at = time.monotonic() + LATE
                    heapq.heappush(self.later, (at, next(self.number), connection, message))
                else:
                    self.write(connection, message)

    def write(self, connection: Connection, message: bytes) -> None:
        """Writes a reply and its length in one write."""
        with contextlib.suppress(OSError):
            connection.socket.send(len(message).to_bytes(2) + message)

    def end(self, connection: Connection) -> None:
        """Closes."""
        if connection.socket.fileno() >= 0:
            self.selector.unregister(connection.socket)
            connection.socket.close()

    def close(self) -> None:
        """Ends the thread, and every socket."""
        self.running = False
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self.selector.close()


def referral(wire: bytes, servers: dict[str, str], here: str) -> bytes:
    """The root's reply: a referral to the zone's server (RFC 1034, 4.3.2), or an error."""
    query = dns.message.make_response(dns.message.from_wire(wire), our_payload=4096)
    labels = query.question[0].name.to_text(omit_final_dot=True).lower().split(".")
    name = ".".join(labels[-2:])
    own = dns.rrset.from_text("ns.test.", 3600, "IN", "A", here)
    if query.question[0].name == dns.name.root:
        query.flags |= dns.flags.AA
        query.answer.append(dns.rrset.from_text(".", 3600, "IN", "NS", "ns.test."))
        query.additional.append(own)
    elif labels == ["ns", "test"] and query.question[0].rdtype == dns.rdatatype.A:
        query.flags |= dns.flags.AA
        query.answer.append(own)
    elif name in servers:
        query.authority.append(dns.rrset.from_text(f"{name}.", 3600, "IN", "NS", f"ns.{name}."))
        glue = dns.rrset.from_text(f"ns.{name}.", 3600, "IN", "A", servers[name])
        query.additional.append(glue)
    else:
        query.flags |= dns.flags.AA
        soa = "ns.test. hostmaster.test. 1 3600 600 86400 60"
        query.authority.append(dns.rrset.from_text(".", 60, "IN", "SOA", soa))
    return query.to_wire()


def reply(wire: bytes, how: str) -> bytes:
    """The reply to a query."""
    query = dns.message.from_wire(wire)
    if how == "format-error" and query.edns >= 0:
        # RFC 6891, 7: as a server that does not know EDNS.
        refusal = dns.message.make_response(query)
        refusal.use_edns(False)
        refusal.set_rcode(dns.rcode.FORMERR)
        return refusal.to_wire()
    answer = dns.message.make_response(query, our_payload=4096)
    answer.flags |= dns.flags.AA
    if how == "truncate":
        answer.flags |= dns.flags.TC
        return answer.to_wire()
    question = query.question[0]
    kind = dns.rdatatype.to_text(question.rdtype)
    data = {"A": "192.0.2.80", "AAAA": "2001:db8::80"}.get(kind)
    if data is None:
        apex = ".".join(question.name.to_text().split(".")[-3:])
        soa = "ns.test. hostmaster.test. 1 3600 600 86400 60"
        answer.authority.append(dns.rrset.from_text(apex, 60, "IN", "SOA", soa))
    else:
        answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, data))
    if how == "long":
        fill = LONG - len(answer.to_wire()) - 12
        parts = [f'"{"x" * min(255, fill - at)}"' for at in range(0, fill, 256)]
        name = question.name
        answer.additional.append(dns.rrset.from_text(name, 60, "IN", "TXT", " ".join(parts)))
    return answer.to_wire(max_size=65535)
