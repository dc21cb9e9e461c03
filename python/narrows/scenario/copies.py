"""Copies of a table: `count = 500` and `{i}` in names stand for 500 tables, numbered from 0.

    [[links]]
    name = "access{i}"
    between = ["src{i}", "R1"]
    count = 500

    [[traffic]]
    pairs = [["src{i}", "dst{i}"]]
    count = 500

A link becomes so many links, in its place; a traffic group gets so many pairs for each that it
lists, and so many of its other ends for each with `{i}`. This happens to a file's values, before
they are validated: errors in them, `resolved` and the run folder show the copies.
"""

from __future__ import annotations

from typing import Any

from narrows.errors import ScenarioError
from narrows.scenario.traffic import KINDS

__all__ = ["COUNT_SCHEMA", "expand"]

_MARK = "{i}"
_MOST_LINKS = 50_000
_MOST_PAIRS = 100_000
# In all copies of a link together, because each copy is validated.
_MOST_VALUES = 2_500_000
_LONGEST_NAME = 100

COUNT_SCHEMA = {
    "type": "integer",
    "minimum": 1,
    "description": "Copies of this table: `{i}` in its names becomes 0, 1, ...",
}
"""The key in the JSON schema."""


def expand(values: dict[str, Any], file: str) -> dict[str, Any]:
    """A scenario's TOML values with every copy written out.

    Args:
        values: The scenario; it stays as it is.
        file: The scenario's file, for errors.

    Raises:
        ScenarioError: A count is no number, too large, or has nothing to number.

    Examples:
        >>> link = {"name": "l{i}", "between": ["src{i}", "R1"], "count": 2}
        >>> [link["name"] for link in expand({"links": [link]}, "")["links"]]
        ['l0', 'l1']
    """
    result = dict(values)
    links, traffic = values.get("links"), values.get("traffic")
    if isinstance(links, list):
        result["links"] = _links(links, file)
    if isinstance(traffic, list):
        result["traffic"] = _groups(traffic, file)
    return result


def _links(links: list[Any], file: str) -> list[Any]:
    result: list[Any] = []
    for index, link in enumerate(links):
        if not isinstance(link, dict) or "count" not in link:
            result.append(link)
            continue
        key = f"links[{index}]"
        count = _count(link, key, 1, _MOST_LINKS - len(result), "links", file)
        name = link.get("name")
        if not isinstance(name, str) or _MARK not in name:
            raise ScenarioError(
                file, f"{key}.name", f"has no {_MARK} to number the copies", f'such as "wan{_MARK}"'
            )
        rest = {field: value for field, value in link.items() if field != "count"}
        if count * _values(rest) > _MOST_VALUES:
            raise ScenarioError(
                file, f"{key}.count", "makes more values than can be held", "lower it"
            )
        result.extend(
            {**rest, "name": _numbered(name, i), "between": _numbered(link.get("between"), i)}
            for i in range(count)
        )
    return result


def _groups(groups: list[Any], file: str) -> list[Any]:
    result: list[Any] = []
    made = 0
    for index, group in enumerate(groups):
        if not isinstance(group, dict) or "count" not in group:
            result.append(group)
            continue
        key = f"traffic[{index}]"
        rest = {field: value for field, value in group.items() if field != "count"}
        copied = _copied_keys(group.get("kind"))
        lists = {field: rest[field] for field in copied if isinstance(rest.get(field), list)}
        if not lists:
            raise ScenarioError(file, f"{key}.count", *_missing(copied))
        each = sum(len(entries) for entries in lists.values())
        count = _count(group, key, each, _MOST_PAIRS - made, "pairs", file)
        for field, entries in lists.items():
            rest[field] = _copied(entries, count)
            made += len(rest[field])
        result.append(rest)
    return result


def _copied_keys(kind: object) -> tuple[str, ...]:
    """The keys of a group whose entries are copied; of a kind that is not known, of every kind."""
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is not None:
        return known.copied
    return tuple(dict.fromkeys(key for each in KINDS.values() for key in each.copied))


def _missing(copied: tuple[str, ...]) -> tuple[str, str]:
    """What to say, and the hint, where there is nothing to copy."""
    if not copied:
        return "has nothing to number in this kind of traffic", "leave it out"
    pair = f'["src{_MARK}", "dst{_MARK}"]'
    entry = pair if copied[0] == "pairs" else f'"node{_MARK}"'
    return f"needs {copied[0]}", f"such as {copied[0]} = [{entry}]"


def _copied(entries: list[Any], count: int) -> list[Any]:
    # Names without a mark stand beside those with one; pairs are copied in any case.
    return [
        _numbered(entry, i)
        for i in range(count)
        for entry in entries
        if i == 0 or not isinstance(entry, str) or _MARK in entry
    ]


def _count(table: dict[str, Any], key: str, each: int, most: int, things: str, file: str) -> int:
    count = table["count"]
    if not isinstance(count, int) or isinstance(count, bool):
        raise ScenarioError(file, f"{key}.count", "is not a whole number")
    if count < 1:
        raise ScenarioError(file, f"{key}.count", "must be at least 1")
    if count * max(each, 1) > most:
        raise ScenarioError(
            file, f"{key}.count", f"makes more {things} than can be held", "lower it"
        )
    return count


def _values(table: dict[str, Any]) -> int:
    """How many values a table holds, those of inner tables and arrays among them."""
    found = 0
    waiting: list[Any] = [table]
    while waiting:
        value = waiting.pop()
        found += 1
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return found


def _numbered(value: Any, number: int) -> Any:
    """A name, or a pair of names, of one copy; other values are for validation to refuse.

    What is longer than a name is not copied, so that no file makes more text than it holds.
    """
    if isinstance(value, str) and len(value) <= _LONGEST_NAME:
        return value.replace(_MARK, str(number))
    if isinstance(value, list) and len(value) <= 2:
        return [_numbered(v, number) if isinstance(v, str) else v for v in value]
    return value
