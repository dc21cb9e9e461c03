"""TLS 1.3 (RFC 8446) as OpenSSL speaks it, on a stream that somebody else carries.

An end takes the bytes that came and gives those that are to leave, each write by itself: how a
flight is cut into writes decides with Nagle's algorithm how many round trips it takes. The socket
stays the caller's, with its time stamps and counters.

Nobody checks certificates (RFC 7858, 4.1: opportunistic privacy), whose names and dates mean
nothing here. Early data is not possible: Python's `ssl` has none.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable
from pathlib import Path

__all__ = ["End", "client_context", "server_context"]

_LARGEST = 1 << 17


def client_context() -> ssl.SSLContext:
    """What the connections of a group of clients share."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def server_context(pem: Path, tickets: int) -> ssl.SSLContext:
    """What the connections of a server share.

    Args:
        pem: A private key and a certificate.
        tickets: How many session tickets follow a whole handshake.

    Raises:
        OSError: They cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = tickets
    context.load_cert_chain(pem)
    return context


class End:
    """An end of a connection."""

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        is_server: bool = False,
        session: ssl.SSLSession | None = None,
        write: int | None = None,
        tickets_apart: bool = False,
    ) -> None:
        """An end that has sent nothing.

        Args:
            context: Of the client or the server.
            is_server: Whether it is the server's.
            session: The client's, to resume.
            write: The most bytes of its flight in a write; None: it is a single one.
            tickets_apart: Whether each ticket is a write of its own.
        """
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_side=is_server, session=session)
        self._write = write
        self._tickets_apart = tickets_apart
        self.is_open = False
        """The handshake is over at this end."""

    def begin(self) -> list[bytes]:
        """A client's ClientHello, as writes."""
        self._shake()
        return self._pending()

    def take(self, data: bytes) -> tuple[bytes, list[bytes]]:
        """Takes what came: what it carries, and the writes that the handshake answers with.

        Raises:
            ssl.SSLError: It is not TLS, or the other end refuses.
        """
        self._in.write(data)
        writes: list[bytes] = []
        if not self.is_open:
            self._shake()
            # A server's tickets follow the client's Finished.
            writes = self._tickets() if self.is_open else self._flight()
        read = bytearray()
        while self.is_open:
            try:
                part = self._object.read(_LARGEST)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                break
            if not part:
                break
            read += part
        return bytes(read), [*writes, *self._pending()]

    def give(self, data: bytes) -> bytes:
        """What carries these bytes.

        Raises:
            ssl.SSLError: The connection is over.
        """
        self._object.write(data)
        return self._out.read()

    def close(self) -> bytes:
        """Says that nothing more will come (`close_notify`, 6.1)."""
        with contextlib.suppress(ssl.SSLError):
            # It wants the other end's too, which nobody waits for.
            self._object.unwrap()
        return self._out.read()

    @property
    def session(self) -> ssl.SSLSession | None:
        """What a client's next connection can resume."""
        found = self._object.session
        return found if found is not None and found.has_ticket else None

    @property
    def is_resumed(self) -> bool:
        """Whether it goes on with an earlier session."""
        return bool(self._object.session_reused)

    def _shake(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.is_open = True

    def _pending(self) -> list[bytes]:
        data = self._out.read()
        return [data] if data else []

    def _flight(self) -> list[bytes]:
        data, most = self._out.read(), self._write
        if most is None:
            return [data] if data else []
        return [data[at : at + most] for at in range(0, len(data), most)]

    def _tickets(self) -> list[bytes]:
        return list(_records(self._out.read())) if self._tickets_apart else self._pending()


def _records(data: bytes) -> Iterable[bytes]:
    """Records, each with its header of five bytes (5.1)."""
    while data:
        end = 5 + int.from_bytes(data[3:5], "big")
        yield data[:end]
        data = data[end:]
