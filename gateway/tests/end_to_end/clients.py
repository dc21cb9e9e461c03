"""Ordinary clients: the kernel's TCP and UDP, one query at a time or many."""

from __future__ import annotations

import socket

import dns.edns
import dns.flags
import dns.message
import dns.query

from tests.network import Namespace

TIMEOUT = 10.0


def query(
    name: str,
    kind: str = "TXT",
    id: int = 0x1234,
    edns: int | None = None,
    options: list[dns.edns.Option] | None = None,
    dnssec: bool = False,
) -> bytes:
    """A query as bytes; `edns` is the payload size to offer, None for no OPT."""
    message = dns.message.make_query(
        name,
        kind,
        id=id,
        flags=0,
        use_edns=False if edns is None else 0,
        payload=edns,
        options=options,
        want_dnssec=dnssec,
    )
    return message.to_wire()


def prefixed(message: bytes) -> bytes:
    """A message after its two bytes of length (RFC 1035, section 4.2.2)."""
    return len(message).to_bytes(2) + message


def family(address: str) -> int:
    """The address family."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def connect(
    space: Namespace,
    address: str,
    timeout: float = TIMEOUT,
    mss: int | None = None,
    source: tuple[str, int] | None = None,
) -> socket.socket:
    """A connection through the kernel's TCP from that namespace."""
    with space.inside():
        stream = socket.socket(family(address), socket.SOCK_STREAM)
    try:
        stream.settimeout(timeout)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if mss is not None:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        if source is not None:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stream.bind(source)
        stream.connect((address, 53))
    except BaseException:
        stream.close()
        raise
    return stream


def receive(stream: socket.socket) -> bytes:
    """The next reply on a connection, without its length prefix."""
    length = int.from_bytes(receive_bytes(stream, 2))
    return receive_bytes(stream, length)


def receive_bytes(stream: socket.socket, count: int) -> bytes:
    """Reads exactly that many bytes."""
    parts = []
    while count:
        part = stream.recv(count)
        if not part:
            raise EOFError("the server closed in the middle of a reply")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def ask(
    space: Namespace,
    address: str,
    message: bytes,
    timeout: float = TIMEOUT,
    mss: int | None = None,
) -> bytes:
    """The reply to one query on a connection of its own."""
    with connect(space, address, timeout, mss) as stream:
        stream.sendall(prefixed(message))
        return receive(stream)


def ask_udp(
    space: Namespace, address: str, message: bytes, timeout: float = TIMEOUT
) -> bytes | None:
    """The reply over UDP, or None."""
    with space.inside():
        datagrams = socket.socket(family(address), socket.SOCK_DGRAM)
    with datagrams:
        datagrams.settimeout(timeout)
        try:
            datagrams.connect((address, 53))
            datagrams.send(message)
            return datagrams.recv(65535)
        except OSError:
            return None
