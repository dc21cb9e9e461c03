"""Text and JSON from other people: folders, captures, measurements and servers.

Nothing of it may control a terminal (C0, C1, DEL, escape sequences), turn the direction of writing
(the bidirectional overrides of Unicode), or be a number that no calculation can use.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

MOST_LEVELS = 64
"""Of objects and lists in JSON: no document of narrows has a third of them."""

LARGEST_INTEGER = 2**64

_KEPT = "\n\t"


def printable(text: str, kept: str = "") -> str:
    r"""Writes every character that is not printable as an escape sequence.

    Args:
        text: Any text.
        kept: Characters that stay, such as line ends.

    Examples:
        >>> printable("\x1b[31mred\x9b\x7f\u202e"), printable("Zürich, 東京")
        ('\\x1b[31mred\\x9b\\x7f\\u202e', 'Zürich, 東京')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in text)


def shortened(text: str, most: int) -> str:
    """A text of at most this many characters, and an ellipsis if there were more.

    Examples:
        >>> shortened("abcd", 4), shortened("abcde", 4)
        ('abcd', 'abcd...')
    """
    return text if len(text) <= most else f"{text[:most]}..."


def parsed(data: bytes) -> Any:
    r"""The value of a JSON text, with each text in it printable, but for line ends and tabs.

    Raises:
        ValueError: It is not JSON, too deep, or holds numbers beyond 64 bits, NaN or infinity.

    Examples:
        >>> parsed(b'{"name": "a\\u001b", "rates": [1, 2.5]}')
        {'name': 'a\\x1b', 'rates': [1, 2.5]}
        >>> parsed(b'[NaN]')
        Traceback (most recent call last):
        ValueError: it holds the number NaN
    """
    try:
        found = json.loads(data, parse_constant=_refuse, parse_float=_float, parse_int=_int)
        return cleaned(found)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at line {error.lineno}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def regular_bytes(path: Path, most: int = -1) -> bytes:
    """The content of a file in a foreign folder, or its first `most` bytes.

    A named pipe there would keep its reader waiting, and a link to a device may never end.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        return file.read(most)


def cleaned(value: Any, levels: int = MOST_LEVELS) -> Any:
    """JSON values with each text in them printable, but for line ends and tabs.

    Raises:
        ValueError: They are too deep.
    """
    if isinstance(value, str):
        return printable(value, _KEPT)
    if isinstance(value, dict | list) and not levels:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {printable(key): cleaned(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [cleaned(inner, levels - 1) for inner in value]
    return value


def _refuse(text: str) -> Any:
    raise ValueError(f"it holds the number {text[:20]}")


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _int(text: str) -> int:
    value = int(text) if len(text) <= 21 else LARGEST_INTEGER
    return value if abs(value) < LARGEST_INTEGER else _refuse(text)
