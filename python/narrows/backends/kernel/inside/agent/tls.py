"""TLS 1.3 (RFC 8446) as OpenSSL speaks it, on a stream that the caller carries.

An end takes the bytes that have arrived and returns those that have to leave, as separate writes.
With Nagle's algorithm, the number of round trips depends on how a flight is split into writes. The
caller keeps the socket, with its timestamps and counters.

Nobody checks certificates (RFC 7858, 4.1: opportunistic privacy), so their names and dates mean
nothing here. Early data is impossible, because Python's `ssl` does not support it.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable
from pathlib import Path

_LARGEST = 1 << 17


def client_context() -> ssl.SSLContext:
    """The context that the connections of a group of clients share."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def server_context(pem: Path, tickets: int) -> ssl.SSLContext:
    """The context that the connections of a server share.

    Args:
        pem: A private key and a certificate.
        tickets: How many session tickets follow a full handshake.

    Raises:
        OSError: The key or the certificate cannot be read.
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
            context: The context of the client or the server.
            is_server: Whether this is the server's end.
            session: A session for the client to resume.
            write: The most bytes of its flight in one write; None for one write per flight.
            tickets_apart: Whether each ticket is a separate write.
        """
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_side=is_server, session=session)
        self._write = write
        self._tickets_apart = tickets_apart
        self.is_open = False
        """Whether the handshake is over at this end."""

    def begin(self) -> list[bytes]:
        """A client's ClientHello, as writes."""
        self._shake()
        return self._pending()

    def take(self, data: bytes) -> tuple[bytes, list[bytes]]:
        """Takes bytes that have arrived.

        Returns:
            The data in them, and the writes that answer the handshake.

        Raises:
            ssl.SSLError: The bytes are not TLS, or the other end refuses.
        """
        self._in.write(data)
        writes: list[bytes] = []
        if not self.is_open:
            self._shake()
            # A server sends its tickets after the client's Finished.
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
        """The TLS records that carry these bytes.

        Raises:
            ssl.SSLError: The connection is over.
        """
        self._object.write(data)
        return self._out.read()

    def close(self) -> bytes:
        """The record that ends the data (`close_notify`, RFC 8446, 6.1)."""
        with contextlib.suppress(ssl.SSLError):
            # OpenSSL wants one from the other end too, but nobody waits for it.
            self._object.unwrap()
        return self._out.read()

    @property
    def session(self) -> ssl.SSLSession | None:
        """The session that a client's next connection can resume."""
        found = self._object.session
        return found if found is not None and found.has_ticket else None

    @property
    def is_resumed(self) -> bool:
        """Whether the connection resumes an earlier session."""
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
    """The records in data, each with its header of five bytes (RFC 8446, 5.1)."""
    while data:
        end = 5 + int.from_bytes(data[3:5], "big")
        yield data[:end]
        data = data[end:]
