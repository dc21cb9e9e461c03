"""Files that a scenario names: lists of numbers, read in bounded time and memory.

A relative name is relative to the folder of the scenario's file. A resolved scenario has the
absolute name, so that a run can be repeated from its folder, and the workers of a sweep find the
file.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from narrows.scenario.amounts import SECOND
from narrows.scenario.quantities import refuse

MOST_BYTES = 64 << 20
"""The largest file, in bytes."""
MOST_PACKETS = 1_000_000
"""The most packets of a trace."""
MOST_OPPORTUNITIES = 5_000_000
"""The most opportunities in a link's trace."""
MOST_IN_A_MS = 300_000
"""The most opportunities in a millisecond (3.6 Tbit/s); the simulator cannot separate more."""

_MOST_S = 240 * 3600

FileName = Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
"""The name of a file."""

Packets = tuple[tuple[int, int], ...]
"""Times after the start in picoseconds, and lengths in bytes."""


def anchored(
    values: Mapping[str, Any], file: str, kinds: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """A scenario's values, with file names made absolute from the folder of the scenario's file.

    Args:
        values: The scenario's values.
        file: The scenario's file.
        kinds: The keys of each kind of traffic that name files.
    """
    folder = Path(file).absolute().parent
    found = dict(values)
    groups = values.get("traffic")
    if isinstance(groups, list | tuple):
        found["traffic"] = [_anchored(group, _keys(group, kinds), folder) for group in groups]
    links = values.get("links")
    if isinstance(links, list | tuple):
        found["links"] = [_anchored_link(link, folder) for link in links]
    return found


def _anchored_link(link: Any, folder: Path) -> Any:
    anchored_link = _anchored(link, ("rate_trace",), folder)
    if not isinstance(anchored_link, Mapping):
        return link
    directions = {
        direction: _anchored(anchored_link[direction], ("rate_trace",), folder)
        for direction in ("forward", "backward")
        if direction in anchored_link
    }
    return {**anchored_link, **directions} if directions else anchored_link


def _keys(group: Any, kinds: Mapping[str, Sequence[str]]) -> Sequence[str]:
    kind = group.get("kind") if isinstance(group, Mapping) else None
    return kinds.get(kind, ()) if isinstance(kind, str) else ()


def _anchored(table: Any, keys: Sequence[str], folder: Path) -> Any:
    if not isinstance(table, Mapping):
        return table
    names = {key: table[key] for key in keys if isinstance(table.get(key), str) and table[key]}
    return {**table, **{key: str(folder / name) for key, name in names.items()}} if names else table


def packets(name: str, key: str) -> Packets:
    """The packets of a trace. Each line has seconds and bytes, and times never decrease.

    Blank lines and what follows a `#` are ignored; a comma may separate the two numbers.

    Raises pydantic's custom error, for `key`, if the file is not such a list.
    """
    found: Packets = _listed(name, key, _packets)
    return found


def _packets(name: str, text: str, key: str) -> Packets:
    found: list[tuple[int, int]] = []
    before = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2:
            raise _wrong(name, number, "does not hold a time and a length", key)
        try:
            at = round(float(words[0]) * SECOND)
            length = int(words[1])
        except (ValueError, OverflowError):
            raise _wrong(name, number, "does not hold two numbers", key) from None
        if not 0 <= at <= _MOST_S * SECOND:
            raise _wrong(name, number, "has a time that is not from 0 s to 240 h", key)
        if at < before:
            raise _wrong(name, number, "goes back in time", key)
        if not 28 <= length <= 65_535:
            raise _wrong(name, number, "has a length that is not from 28 to 65535 bytes", key)
        if len(found) == MOST_PACKETS:
            raise refuse(f'"{name}" has more than {MOST_PACKETS} packets', "cut or thin it", key)
        before = at
        found.append((at, length))
    if not found:
        raise refuse(f'"{name}" has no packets', "a line is such as 0.25 1500", key)
    return tuple(found)


def opportunities(name: str, key: str) -> tuple[int, ...]:
    """The milliseconds of a link's trace in Mahimahi's format, which never decrease.

    Raises pydantic's custom error, for `key`, if the file is not such a trace.
    """
    found: tuple[int, ...] = _listed(name, key, _opportunities)
    return found


def _opportunities(name: str, text: str, key: str) -> tuple[int, ...]:
    hint = "a line is a millisecond, such as 17"
    found: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not (word.isascii() and word.isdigit() and len(word) <= 9):
            raise refuse(
                f'"{name}", line {number}, is not a whole number of milliseconds', hint, key
            )
        at = int(word)
        if found and at < found[-1]:
            raise refuse(f'"{name}", line {number}, goes back in time', hint, key)
        if len(found) == MOST_OPPORTUNITIES:
            raise refuse(f'"{name}" has more than {MOST_OPPORTUNITIES} lines', "cut it", key)
        if len(found) >= MOST_IN_A_MS and found[-MOST_IN_A_MS] == at:
            raise refuse(
                f'"{name}", line {number}, is one of more than {MOST_IN_A_MS} in a millisecond',
                "thin it",
                key,
            )
        found.append(at)
    if not found or found[-1] == 0:
        raise refuse(f'"{name}" has a length of zero', hint, key)
    return tuple(found)


def _wrong(name: str, line: int, message: str, key: str) -> Exception:
    return refuse(f'"{name}", line {line}, {message}', "a line is such as 0.25 1500", key)


def _listed(name: str, key: str, parse: Callable[[str, str, str], Any]) -> Any:
    path = Path(name)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "is not a file name"
        raise refuse(f'"{name}" cannot be read: {said}', "check the path", key) from None
    if not stat.S_ISREG(status.st_mode):
        raise refuse(f'"{name}" is not a regular file', "name a file", key)
    if status.st_size > MOST_BYTES:
        raise refuse(
            f'"{name}" has {status.st_size} bytes; at most {MOST_BYTES} are read',
            "cut or thin it",
            key,
        )
    return _parsed(name, key, parse, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=16)
def _parsed(
    name: str, key: str, parse: Callable[[str, str, str], Any], _mtime: int, _size: int
) -> Any:
    """Parses a file; reads it only once as long as it does not change."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(MOST_BYTES)
    except OSError as error:
        raise refuse(f'"{name}" cannot be read: {error.strerror}', "check it", key) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refuse(f'"{name}" is not text', "name a list of numbers", key) from None
    return parse(name, text, key)
