"""Copies of a table: `count = 500` and `{i}` in names stand for 500 tables, numbered from 0.

    [[links]]
    name = "access{i}"
    between = ["src{i}", "R1"]
    count = 500

    [[traffic]]
    pairs = [["src{i}", "dst{i}"]]
    count = 500

A link is replaced by `count` links. A traffic group gets `count` pairs for each pair that it lists,
and `count` names for each of its other ends with `{i}`. This happens to a file's values before they
are validated: `resolved` and the run folder show the copies. Errors name the places in the
file.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pydantic import ValidationError

from narrows.errors import ScenarioError
from narrows.scenario.base import Table
from narrows.scenario.links import Link
from narrows.scenario.traffic import KINDS, Group

_MARK = "{i}"
_MOST_LINKS = 50_000
_MOST_PAIRS = 100_000
# In all copies of a link together, because each copy is validated.
_MOST_VALUES = 2_500_000
_LONGEST_NAME = 100
# The path of an entry that may be a copy: the array's path, and the entry's place.
_COPY = re.compile(r"(?<![\w.])(links|traffic\[\d{1,9}\]\.\w+)\[(\d{1,9})\]")

COUNT_SCHEMA = {
    "type": "integer",
    "minimum": 1,
    "description": "Copies of this table: `{i}` in its names becomes 0, 1, ...",
}
"""The key in the JSON schema."""


def is_copied(table: type[Table]) -> bool:
    """Whether a table has the key."""
    return table is Link or (issubclass(table, Group) and bool(table.copied))


class Miscounted(dict[str, Any]):
    """A table whose copies cannot be made; it holds the first of them."""


class Copies(NamedTuple):
    """A scenario's values with every copy written out."""

    values: dict[str, Any]
    origins: dict[str, list[int]]
    """For each array with copies, by its path: the place in the file of each of its entries."""
    errors: list[ScenarioError]
    """What is wrong with counts."""

    def written(self, text: str) -> str:
        """A path, or a sentence with paths, with places as in the file."""

        def place(found: re.Match[str]) -> str:
            places, number = self.origins.get(found[1], ()), int(found[2])
            return f"{found[1]}[{places[number]}]" if number < len(places) else found[0]

        return _COPY.sub(place, text)


def expand(values: dict[str, Any], file: str) -> Copies:
    """A scenario's TOML values with every copy written out.

    Args:
        values: The scenario; it stays as it is.
        file: The scenario's file, for errors.

    Examples:
        >>> link = {"name": "l{i}", "between": ["src{i}", "R1"], "count": 2}
        >>> copies = expand({"links": [link, {"name": "wan"}]}, "")
        >>> [link["name"] for link in copies.values["links"]]
        ['l0', 'l1', 'wan']
        >>> copies.written("links[2].rate")
        'links[1].rate'
    """
    copies = Copies(dict(values), {}, [])
    links, traffic = values.get("links"), values.get("traffic")
    if isinstance(links, list):
        _links(links, file, copies)
    if isinstance(traffic, list):
        _groups(traffic, file, copies)
    return copies


def _links(links: list[Any], file: str, copies: Copies) -> None:
    result: list[Any] = []
    places: list[int] = []
    for index, link in enumerate(links):
        if not isinstance(link, dict) or "count" not in link:
            made = [link]
        else:
            rest = {field: value for field, value in link.items() if field != "count"}
            most = _MOST_LINKS - len(result)
            try:
                count = _count_of_link(link, rest, f"links[{index}]", most, file)
                made = _copies_of_link(rest, count)
            except ScenarioError as error:
                copies.errors.append(error)
                made = [Miscounted(_numbered_link(rest, 0))]
        result += made
        places += [index] * len(made)
    copies.values["links"] = result
    if len(result) > len(links):
        copies.origins["links"] = places


def _count_of_link(
    link: dict[str, Any], rest: dict[str, Any], key: str, most: int, file: str
) -> int:
    count = _count(link, key, 1, most, "links", file)
    name = link.get("name")
    if not isinstance(name, str) or _MARK not in name:
        raise ScenarioError(
            file, f"{key}.name", f"has no {_MARK} to number the copies", f'such as "wan{_MARK}"'
        )
    if count * _values(rest) > _MOST_VALUES:
        raise ScenarioError(file, f"{key}.count", "makes more values than can be held", "lower it")
    return count


def _copies_of_link(link: dict[str, Any], count: int) -> list[Any]:
    """The copies of a link: tables, or values if these are wrong.

    Copies differ in names alone, and the last number is the longest. So if the first and the last
    are valid, only links of a node with itself can be wrong among the others.
    """
    first, last = _numbered_link(link, 0), _numbered_link(link, count - 1)
    try:
        pattern = Link.model_validate(first)
        Link.model_validate(last)
    except ValidationError:
        return [_numbered_link(link, i) for i in range(count)]
    made: list[Any] = []
    for number in range(count):
        one, other = (_numbered(end, number) for end in link["between"])
        if one == other:
            made.append(_numbered_link(link, number))
        else:
            names = {"name": _numbered(link["name"], number), "between": (one, other)}
            made.append(pattern.model_copy(update=names))
    return made


def _numbered_link(link: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        key: _numbered(value, number) if key in ("name", "between") else value
        for key, value in link.items()
    }


def _groups(groups: list[Any], file: str, copies: Copies) -> None:
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
        try:
            if not lists:
                raise ScenarioError(file, f"{key}.count", *_missing(copied))
            each = sum(len(entries) for entries in lists.values())
            count = _count(group, key, each, _MOST_PAIRS - made, "pairs", file)
        except ScenarioError as error:
            copies.errors.append(error)
            count, rest = 1, Miscounted(rest)
        for field, entries in lists.items():
            numbered = _copied(entries, count)
            rest[field] = [entry for entry, _ in numbered]
            copies.origins[f"{key}.{field}"] = [place for _, place in numbered]
            made += len(numbered)
        result.append(rest)
    copies.values["traffic"] = result


def _copied_keys(kind: object) -> tuple[str, ...]:
    """The keys whose entries are copied in a kind of group; for an unknown kind, those of all."""
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


def _copied(entries: list[Any], count: int) -> list[tuple[Any, int]]:
    """The copies of entries, each with its entry's place."""
    # Names without a mark stand beside those with one; pairs are copied in any case.
    return [
        (_numbered(entry, i), place)
        for i in range(count)
        for place, entry in enumerate(entries)
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
    """Puts a copy's number into a name or a pair of names; leaves other values to validation.

    Text that is longer than a name stays as it is, so that copies cannot multiply long text.
    """
    if isinstance(value, str) and len(value) <= _LONGEST_NAME:
        return value.replace(_MARK, str(number))
    if isinstance(value, list) and len(value) <= 2:
        return [_numbered(v, number) if isinstance(v, str) else v for v in value]
    return value
