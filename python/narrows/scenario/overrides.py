"""Overrides by dotted key: `links.bottleneck.rate`, `links[0].queue.limit`, `queue.limit`.

An entry of an array of tables is named by its name or its index; if the array has only one entry,
its name may be left out. `queue` alone is the monitored queue, or the only queue in the file.
"""

from __future__ import annotations

import copy
import fnmatch
import json
import re
from collections.abc import Mapping
from typing import Any

from narrows.errors import ScenarioError, together
from narrows.scenario.amounts import Quantity
from narrows.scenario.base import Table
from narrows.scenario.queues import DISCIPLINES
from narrows.scenario.reading import value_of
from narrows.scenario.suggestions import kind_suggestion, suggestion

_LONGEST_KEY = 500
_PART = re.compile(r"\[(\d{1,9})\]|\.?([A-Za-z0-9_-]+)")
_DIRECTIONS = ("forward", "backward")
# The queue of a direction without one of its own: Linux's default.
_DEFAULT_QUEUE = {"kind": "pfifo", "limit": 1000}


def override(values: dict[str, Any], key: str, text: str, file: str) -> str:
    """Sets one key of a scenario's TOML values, in place; returns its path with indices.

    Args:
        values: The scenario.
        key: Dotted key, as in the module's description.
        text: The value as TOML; text that is not TOML is used as it is.
        file: The scenario's file, for errors.

    Raises:
        ScenarioError: The key leads nowhere, or to more than one place.

    Examples:
        >>> values = {"links": [{"name": "wan", "rate": "1 Mbit/s"}]}
        >>> override(values, "links.wan.rate", "2 Mbit/s", "")
        'links[0].rate'
        >>> values
        {'links': [{'name': 'wan', 'rate': '2 Mbit/s'}]}
    """
    return set_value(values, key, value_of(text), file)


def set_value(values: dict[str, Any], key: str, value: Any, file: str) -> str:
    """Does the same with a value of TOML's types: a table, an array, a number or text.

    Raises:
        ScenarioError: The key leads nowhere, or to more than one place.
    """
    parts = _split(key, file)
    if parts[0] == "queue":
        parts = [*_the_queue(values, key, parts[1:], file), *parts[1:]]
    return _text(_set(values, parts, copy.deepcopy(value), key, file))


def set_all(values: dict[str, Any], changes: Mapping[str, Any], file: str) -> dict[str, str]:
    """Sets several keys, in place; returns the keys as they are written, by their paths.

    Text that is valid TOML is parsed; other text is used as it is.

    Raises:
        ScenarioError: Keys lead nowhere, or to more than one place.
    """
    written: dict[str, str] = {}
    wrong: list[ScenarioError] = []
    for key, value in changes.items():
        try:
            if isinstance(value, str):
                path = override(values, key, value, file)
            else:
                path = set_value(values, key, plain(value), file)
        except ScenarioError as error:
            wrong.append(error)
        else:
            written[path] = key
    if wrong:
        raise together(wrong)
    return written


def plain(value: Any) -> Any:
    """Converts a value that may hold the language's quantities and tables to TOML's types.

    Examples:
        >>> from narrows.scenario.amounts import Duration
        >>> plain({"delay": Duration("50 ms"), "between": ("a", "b")})
        {'delay': '50 ms', 'between': ['a', 'b']}
    """
    if isinstance(value, Table):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def _split(key: str, file: str) -> list[str | int]:
    parts: list[str | int] = []
    position = 0
    while position < len(key) <= _LONGEST_KEY:
        found = _PART.match(key, position)
        if found is None or (position == 0 and key[0] in ".["):
            break
        parts.append(int(found[1]) if found[1] else found[2])
        position = found.end()
    if not parts or position < len(key):
        raise ScenarioError(
            file, key, "is not a key that can be set", "such as links.bottleneck.queue.limit"
        )
    return parts


def _set(
    values: dict[str, Any], parts: list[str | int], value: Any, key: str, file: str
) -> list[str | int]:
    node: Any = values
    path: list[str | int] = []
    common: Any = None
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if isinstance(node, list):
            entries = node
            node, taken = _entry(entries, part, key, file)
            path.append(next(at for at, entry in enumerate(entries) if entry is node))
            if taken:
                if last:
                    raise ScenarioError(file, key, "is a whole entry", "name a key of it")
                continue
        if not isinstance(node, dict) or not isinstance(part, str):
            raise ScenarioError(file, key, "leads into a value that is not a table")
        path.append(part)
        _reaches_both_directions(node, part, parts[position + 1 :], key, file)
        if last:
            if part == "kind" and path[-2:-1] == ["queue"]:
                _keeps_nothing(node, value, key, file)
            node[part] = value
            return path
        if part == "transport":
            # A name alone, or nothing, stands for a table.
            of_kind = node.get(part, "udp")
            node[part] = {"kind": of_kind} if isinstance(of_kind, str) else of_kind
        if part not in node:
            # A direction copies the link's table before a key in it changes.
            node[part] = copy.deepcopy(common.get(part, {})) if common is not None else {}
            if part == "queue" and not node[part]:
                node[part] = dict(_DEFAULT_QUEUE)
        common = node if part in _DIRECTIONS else None
        node = node[part]
    raise AssertionError("the last part sets the value or raises")


def _reaches_both_directions(
    node: dict[str, Any], part: str, rest: list[str | int], key: str, file: str
) -> None:
    """Refuses a link's key that a direction sets itself, because it would not change there.

    Raises:
        ScenarioError: A direction has the key.
    """
    for direction in _DIRECTIONS:
        own = node.get(direction)
        if isinstance(own, dict) and part in own:
            path = (
                _text([node["name"], direction, part, *rest])
                if "name" in node
                else f"{direction}.{part}"
            )
            raise ScenarioError(
                file, key, f"does not reach {direction}, which has its own", f"set links.{path}"
            )


def _keeps_nothing(queue: dict[str, Any], kind: Any, key: str, file: str) -> None:
    """Refuses another kind for a queue that has keys, because the keys belong to the old kind.

    Raises:
        ScenarioError: The queue has keys, or there is no such kind.
    """
    if kind not in DISCIPLINES:
        raise ScenarioError(
            file,
            key,
            f'"{str(kind)[:64]}" is not known here',
            kind_suggestion(str(kind), [*DISCIPLINES]),
        )
    kept = [f"{name} = {_value(value)}" for name, value in queue.items() if name != "kind"]
    old = queue.get("kind")
    if kept and isinstance(old, str) and old != kind:
        whole = key.removesuffix(".kind")
        fields = DISCIPLINES[kind].model_fields.items()
        needed = "".join(f", {name} = .." for name, field in fields if field.is_required())
        raise ScenarioError(
            file,
            key,
            f"would keep settings of {old}: {', '.join(kept)[:100]}",
            f"another kind needs its whole table: {whole}='{{ kind = \"{kind}\"{needed} }}'",
        )


def _value(value: Any) -> str:
    return json.dumps(value, default=str)


def _text(parts: list[str | int]) -> str:
    """The parts of a key as a dotted key."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".")


def _entry(entries: list[Any], part: str | int, key: str, file: str) -> tuple[Any, bool]:
    """The entry of an array that a part names, and whether it names one at all."""
    names = [e.get("name") for e in entries if isinstance(e, dict)]
    if isinstance(part, str) and part in names:
        return next(e for e in entries if isinstance(e, dict) and e.get("name") == part), True
    index = (
        part if isinstance(part, int) else int(part) if re.fullmatch(r"[0-9]{1,9}", part) else -1
    )
    if 0 <= index < len(entries):
        return entries[index], True
    if index < 0 and len(entries) == 1:
        return entries[0], False
    known = [name for name in names if isinstance(name, str)]
    hint = suggestion(str(part), known)
    # A key without the entry's name, such as `dns.profile` where there are several groups.
    is_key = key.endswith(f".{part}") or any(isinstance(e, dict) and part in e for e in entries)
    if known and is_key and not hint.endswith("?"):
        hint += f", as in {key.replace(f'.{part}', f'.{known[0]}.{part}', 1)}"
    raise ScenarioError(file, key, f'has no entry "{part}"', hint)


def _the_queue(
    values: dict[str, Any], key: str, rest: list[str | int], file: str
) -> list[str | int]:
    """The path of the queue that `queue` alone means."""
    links = values.get("links")
    tables = [link for link in links if isinstance(link, dict)] if isinstance(links, list) else []
    given: list[tuple[str, ...]] = []
    queues: list[tuple[str, str, tuple[str, ...]]] = []
    for link in tables:
        name = link.get("name")
        if not isinstance(name, str):
            continue
        if "queue" in link:
            given.append(("links", name, "queue"))
        for direction in _DIRECTIONS:
            place: tuple[str, ...] = ("links", name, direction, "queue")
            own = link.get(direction)
            if isinstance(own, dict) and "queue" in own:
                given.append(place)
            elif "queue" in link:
                place = ("links", name, "queue")
            queues.append((name, f"{name}.{direction}", place))
    monitored = _monitored(values)
    seen = [
        place
        for name, full, place in queues
        if any(fnmatch.fnmatchcase(full, p) or fnmatch.fnmatchcase(name, p) for p in monitored)
    ]
    for places in (seen, given):
        if len(dict.fromkeys(places)) == 1:
            return list(places[0])
    if not given:
        raise ScenarioError(
            file, key, "means no queue: no link has one", "name it: links.NAME.queue"
        )
    candidates = [_text([*place, *rest]) for place in given]
    more = ", ..." if len(candidates) > 4 else ""
    raise ScenarioError(
        file, key, "may mean several queues", f"one of {', '.join(candidates[:4])}{more}"
    )


def _monitored(values: dict[str, Any]) -> list[str]:
    node: Any = values
    for part in ("monitor", "queues", "links"):
        node = node.get(part) if isinstance(node, dict) else None
    patterns = node if isinstance(node, list) else []
    return [p for p in patterns if isinstance(p, str) and len(p) <= 80][:100]
