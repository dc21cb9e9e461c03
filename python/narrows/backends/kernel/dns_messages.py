"""Queries of exact lengths to real servers (RFC 1035, section 4; RFC 6891; RFC 7830 for padding).

A query asks for a name that is unique to its exchange, so the name tells the server which reply to
send. If queries of two exchanges have the same length, their names begin with different *marks*.
"""

from __future__ import annotations

import struct

TXT = 16
"""The type that queries ask for, because its records can have any length."""

_HEADER = 12
_QUESTION = 4
_OPT = 11
_OPTION = 4
_PADDING = 12
_LONGEST_NAME = 255
_USUAL_NAME = 100
_WITHOUT_EDNS = 512
_MOST_OVER_UDP = 65_507


def name_bytes(length: int, payload: int, most: int = _LONGEST_NAME) -> int | None:
    """The length of the name in a query of `length` bytes; None if there is no such query.

    Args:
        length: The length of the query, in bytes.
        payload: The longest reply that the client accepts over UDP, in bytes. Above 512 B, the
            query says so with EDNS, if there is room.
        most: The longest name that the reply has room for, in bytes.
    """
    plain = length - _HEADER - _QUESTION
    room = plain - _OPT
    if payload > _WITHOUT_EDNS and _is_name(room) and room <= min(_USUAL_NAME, most):
        return room
    if _is_name(plain) and plain <= most and (payload <= _WITHOUT_EDNS or room < 3):
        return plain
    # The rest is padding, an option of EDNS.
    for found in range(min(_USUAL_NAME, most, room - _OPTION), 0, -1):
        if _is_name(found):
            return found
    return None


def query(number: int, length: int, payload: int, mark: str = "", most: int = 255) -> bytes:
    """A query of `length` bytes.

    Raises:
        ValueError: No query has this length.
    """
    found = name_bytes(length, payload, most)
    if found is None or len(mark) > max(0, min(63, found - 2)):
        raise ValueError(f"no query of {length} B")
    question = _name(found, mark) + struct.pack(">HH", TXT, 1)
    rest = length - _HEADER - len(question)
    edns = b""
    if rest:
        data = b""
        if rest > _OPT:
            padding = rest - _OPT - _OPTION
            data = struct.pack(">HH", _PADDING, padding) + bytes(padding)
        takes = min(max(payload, _WITHOUT_EDNS), _MOST_OVER_UDP)
        edns = struct.pack(">BHHIH", 0, 41, takes, 0, len(data)) + data
    return header(number, 0x0100, 1 if edns else 0) + question + edns


def padded_length(length: int, block: int) -> int:
    """The length of a message with the padding option (RFC 8467, 4.1)."""
    return min(-(-(length + _OPTION) // block) * block, 65_535)


def padded(message: bytes, block: int) -> bytes:
    """A query, padded to a multiple of `block` bytes (RFC 7830)."""
    end = _HEADER + len(asked_name(message)) + _QUESTION
    begun = message[:end]
    opt = message[end : end + _OPT - 2]
    data = message[end + _OPT :]
    if not opt:
        begun = begun[:10] + b"\0\1" + begun[12:]
        opt = struct.pack(">BHHI", 0, 41, _WITHOUT_EDNS, 0)
    # There is at most one padding option, and it comes last.
    before = len(begun) + _OPT + len(data)
    padding = padded_length(before, block) - before
    rest = data[_OPTION:] + bytes(padding if data else padding - _OPTION)
    option = struct.pack(">HH", _PADDING, len(rest)) + rest
    return begun + opt + struct.pack(">H", len(option)) + option


def header(number: int, flags: int, additional: int) -> bytes:
    """The header of a message with one question."""
    return struct.pack(">6H", number, flags, 1, 0, 0, additional)


def asked_name(message: bytes) -> bytes:
    """The name in a message's question, in wire format; empty if there is none."""
    at = _HEADER
    while at < len(message):
        label = message[at]
        if label > 63:
            return b""
        at += 1 + label
        if not label:
            return message[_HEADER:at]
    return b""


def _is_name(length: int) -> bool:
    return length == 1 or 3 <= length <= _LONGEST_NAME


def _name(length: int, mark: str = "") -> bytes:
    """A name of `length` bytes including its final zero: 1, or 3 to 255."""
    rest = length - 1
    labels = b""
    while rest > 0:
        label = min(63, rest - 1)
        if rest - 1 - label == 1:
            # One byte cannot be a label.
            label -= 1
        text = b"n" * label if labels else mark.encode().ljust(label, b"n")
        labels += bytes([label]) + text
        rest -= 1 + label
    return labels + b"\0"
