"""Lines of JSON that only holders of the run's secret can write, without I/O.

Each end first sends a greeting with a nonce. Every line after it is

    HMAC-SHA256, 64 hexadecimal digits, a space, JSON, newline

over the line's number in its direction (8 bytes, from 0) and the JSON. The key of a direction is
HMAC-SHA256 over its name and both nonces, with the secret as the key (RFC 2104). So a line is valid
only once, only in its place, only in its direction, and only on its connection. Nothing is secret
but the secret: who sees the connection can read it.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

from narrows.errors import one_line

PART = b"part"
CONDUCTOR = b"conductor"

LONGEST = 4096
"""The most bytes of a line."""

_GREETING = b"narrows-machines-2 "
_NONCE_BYTES = 16
_MAC_DIGITS = 64

Message = Mapping[str, Any]


class LineError(Exception):
    """The other end sent what no holder of the secret would send here; the text says what."""


class Line:
    """One end of a connection: the bytes that it sends, and the messages in those it gets."""

    def __init__(self, secret: str, own: bytes) -> None:
        """Begins a connection.

        Args:
            secret: The run's secret.
            own: Which end this is: `PART` or `CONDUCTOR`.
        """
        self._secret = secret.encode()
        self._own, self._other = own, PART if own == CONDUCTOR else CONDUCTOR
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._received = bytearray()
        self._keys: tuple[bytes, bytes] | None = None
        self._sealed = self._opened = 0

    @property
    def greeting(self) -> bytes:
        """The first line that this end sends."""
        return _GREETING + self._nonce.hex().encode() + b"\n"

    @property
    def is_greeted(self) -> bool:
        """Whether the other end's greeting has arrived, so that this end can write."""
        return self._keys is not None

    @property
    def is_proven(self) -> bool:
        """Whether the other end has shown that it knows the secret."""
        return self._opened > 0

    def seal(self, message: Message) -> bytes:
        """The next line of this end, which needs the other end's greeting."""
        assert self._keys is not None, "the other end has greeted"
        body = json.dumps(message, separators=(",", ":")).encode()
        line = _mac(self._keys[0], self._sealed, body) + b" " + body + b"\n"
        self._sealed += 1
        return line

    def feed(self, found: bytes) -> None:
        """Takes received bytes."""
        self._received += found

    def next(self) -> Message | None:
        """The next message; None if it is not complete yet.

        Raises:
            LineError: The line is not from a holder of the secret, or is no message.
        """
        while (end := self._received.find(b"\n", 0, LONGEST)) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            if self._keys is not None:
                return self._open(self._keys[1], line)
            self._greeted(line)
        if len(self._received) >= LONGEST:
            raise LineError(f"a line is longer than {LONGEST} bytes")
        return None

    def _greeted(self, line: bytes) -> None:
        text = line.removeprefix(_GREETING)
        try:
            theirs = bytes.fromhex(text.decode("ascii"))
        except ValueError:
            theirs = b""
        if text == line or len(theirs) != _NONCE_BYTES:
            raise LineError("the other end is not this version of narrows")
        nonces = {self._own: self._nonce, self._other: theirs}
        both = nonces[PART] + nonces[CONDUCTOR]
        own, other = (
            hmac.digest(self._secret, _GREETING + end + b" " + both, "sha256")
            for end in (self._own, self._other)
        )
        self._keys = own, other

    def _open(self, key: bytes, line: bytes) -> Message:
        body = line[_MAC_DIGITS + 1 :]
        if not hmac.compare_digest(line[: _MAC_DIGITS + 1], _mac(key, self._opened, body) + b" "):
            raise LineError("the other end has another secret")
        self._opened += 1
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or len(message) != 1:
            raise LineError(f"{one_line(repr(body))} is not a message")
        return message


def _mac(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.digest(key, number.to_bytes(8, "big") + body, "sha256").hex().encode()
