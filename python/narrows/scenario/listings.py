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
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from narrows import _core
from narrows.scenario.amounts import SECOND
from narrows.scenario.quantities import refuse

MOST_BYTES = 64 << 20
"""The largest file, in bytes."""
MOST_PACKETS = 1_000_000
"""The most packets of a trace."""

LINK_KEYS = ("rate_trace",)
"""The keys of a link that name files."""

_MOST_S = 240 * 3600

FileName = Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
"""The name of a file."""

Packets = tuple[tuple[int, int], ...]
"""Times after the start in picoseconds, and lengths in bytes."""


Rename = Callable[[str], str]
"""Takes the name of a file, and returns the one to write instead."""


def anchored(
    values: Mapping[str, Any], file: str, listed: Callable[[str], Sequence[str]]
) -> dict[str, Any]:
    """A scenario's values, with file names made absolute from the folder of the scenario's file.

    Args:
        values: The scenario's values.
        file: The scenario's file.
        listed: Returns the keys of a kind of traffic that name files.
    """
    folder = Path(file).absolute().parent
    return renamed(values, lambda name: str(folder / name), listed)


def renamed(
    values: Mapping[str, Any], rename: Rename, listed: Callable[[str], Sequence[str]]
) -> dict[str, Any]:
    """A scenario's values with other names of files; `listed` is as for `anchored`."""
    found = dict(values)
    groups = values.get("traffic")
    if isinstance(groups, list | tuple):
        found["traffic"] = [_renamed(group, _keys(group, listed), rename) for group in groups]
    links = values.get("links")
    if isinstance(links, list | tuple):
        found["links"] = [_renamed_in_link(link, rename) for link in links]
    return found


def _renamed_in_link(link: Any, rename: Rename) -> Any:
    found = _renamed(link, LINK_KEYS, rename)
    if not isinstance(found, Mapping):
        return link
    directions = {
        direction: _renamed(found[direction], LINK_KEYS, rename)
        for direction in ("forward", "backward")
        if direction in found
    }
    return {**found, **directions} if directions else found


def _keys(group: Any, listed: Callable[[str], Sequence[str]]) -> Sequence[str]:
    kind = group.get("kind") if isinstance(group, Mapping) else None
    return listed(kind) if isinstance(kind, str) else ()


def _renamed(table: Any, keys: Sequence[str], rename: Rename) -> Any:
    if not isinstance(table, Mapping):
        return table
    names = {key: table[key] for key in keys if isinstance(table.get(key), str) and table[key]}
    return {**table, **{key: rename(name) for key, name in names.items()}} if names else table


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


class RateTrace(NamedTuple):
    """How a link's rate goes over time: one of the first two is None."""

    opportunities: tuple[int, ...] | None
    """Milliseconds at which 1500 bytes may leave, repeatedly."""
    rates: tuple[tuple[int, int], ...] | None
    """Times in picoseconds and the rate from each on, in bit/s; 0 means that the link is down."""
    mean: int
    """The mean rate in bit/s."""


def rate_trace(name: str, key: str) -> RateTrace:
    """A link's trace: a table of rates if the file's name ends in `.csv`, or Mahimahi's format.

    Raises pydantic's custom error, for `key`, if the file is not such a trace.
    """
    is_table = name.lower().endswith(".csv")
    found: RateTrace = _listed(name, key, _rates if is_table else _opportunities)
    return found


def _opportunities(name: str, text: str, key: str) -> RateTrace:
    found, wrong = _core.read_opportunities(text)
    if found is None:
        raise _at_line(name, wrong, key)
    return RateTrace(tuple(found), None, max(1, len(found) * 1500 * 8 * 1000 // found[-1]))


def _rates(name: str, text: str, key: str) -> RateTrace:
    found, wrong = _core.read_rates(text)
    if found is None:
        raise _at_line(name, wrong, key)
    steps, mean = found
    return RateTrace(None, tuple(steps), mean)


def _at_line(name: str, wrong: tuple[int, str, str] | None, key: str) -> Exception:
    assert wrong is not None, "the extension says what is wrong"
    line, what, hint = wrong
    place = f", line {line}," if line else ""
    return refuse(f'"{name}"{place} {what}', hint, key)


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
