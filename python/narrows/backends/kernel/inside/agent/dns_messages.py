"""DNS messages of exact lengths (RFC 1035, section 4; RFC 6891; RFC 7830 for padding)."""

from __future__ import annotations

import struct

__all__ = ["query", "reply"]

_HEADER = 12
_OPT = 11
_PADDING = 4
_LONGEST_NAME = 255
_NULL_RECORD = 11


def query(number: int, length: int) -> bytes:
    """A question of so many bytes: by a long enough name, and beyond that by EDNS padding.

    There is none of fewer than 17 bytes, and none of 18.
    """
    padded = b""
    if length > _HEADER + _LONGEST_NAME + 4:
        name = _name(100)
        rest = length - _HEADER - len(name) - 4 - _OPT - _PADDING
        option = struct.pack(">HH", 12, rest) + bytes(rest)
        padded = struct.pack(">BHHIH", 0, 41, 65507, 0, len(option)) + option
    else:
        name = _name(length - _HEADER - 4)
    header = struct.pack(">6H", number, 0x0100, 1, 0, 0, 1 if padded else 0)
    return header + name + struct.pack(">HH", 1, 1) + padded


def reply(asked: bytes, length: int) -> bytes:
    """An answer to a query, of so many bytes: what is above the query's length is one record.

    Where that is too little for a record (11 bytes), it is the query with the bit of a reply.
    """
    flags, questions, _, _, additional = struct.unpack_from(">5H", asked, 2)
    rest = length - len(asked) - _NULL_RECORD
    record = b"" if rest < 0 else struct.pack(">BHHIH", 0, 10, 1, 0, rest) + bytes(rest)
    # Behind the query's own EDNS record, so that the query can stay as it is.
    counts = (questions, 0, 0, additional + bool(record))
    return asked[:2] + struct.pack(">5H", flags | 0x8400, *counts) + asked[_HEADER:] + record


def _name(length: int) -> bytes:
    """A name of so many bytes, its last zero included: 1, or 3 to 255."""
    rest = length - 1
    labels = b""
    while rest > 0:
        label = min(63, rest - 1)
        if rest - 1 - label == 1:
            # One byte cannot be a label.
            label -= 1
        labels += bytes([label]) + b"n" * label
        rest -= 1 + label
    return labels + b"\0"
