"""Names for groups of runs in a comparison, from the settings in which they differ."""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

LONGEST_WORDS = 48
"""The most characters of settings in a group's name, which heads a column."""


@dataclass(frozen=True)
class Named:
    """Something with a name, and with settings and a folder to distinguish it from namesakes."""

    name: str
    scenario: Mapping[str, Any]
    folder: Path | None


def distinct_labels(things: Sequence[Named]) -> list[str]:
    """Gives each a different name.

    It is the scenario's name. If several share it, the settings in which they differ follow, or the
    folder's name if there are many such settings. If all share it, it says nothing, and is left
    out where there are settings.
    """
    labels = [thing.name for thing in things]
    shared = len(set(labels)) == 1
    for name in sorted(set(labels)):
        places = [place for place, thing in enumerate(things) if thing.name == name]
        if len(places) == 1:
            continue
        settings = [_settings(things[place].scenario) for place in places]
        kinds = [_kinds(one) for one in settings]
        words = _words(settings) or _words(kinds)
        for number, place in enumerate(places):
            if words:
                named = words[number] if shared else f"{name}, {words[number]}"
                labels[place] = named if words[number] else name
            else:
                folder = things[place].folder
                labels[place] = f"{name} ({folder.name if folder else place + 1})"
    # Folders in different places may have the same name.
    return [
        f"{label} [{number}]" if labels.count(label) > 1 else label
        for number, label in enumerate(labels, start=1)
    ]


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The dotted keys in which two scenarios differ.

    Examples:
        >>> link = {"name": "wan", "rate": "2 Mbit/s"}
        >>> differing({"links": [link]}, {"links": [{**link, "rate": "4 Mbit/s"}]})
        ['links.wan.rate']
    """
    mine, others = _settings(one), _settings(other)
    return [key for key in {**mine, **others} if mine.get(key) != others.get(key)]


def unsaid(one: Mapping[str, Any], other: Mapping[str, Any], label: str) -> list[str]:
    """The dotted keys in which two scenarios differ and that the label does not name.

    If tables differ in their kind, keys that only one of them can have are left out.

    Examples:
        >>> pie = {"queue": {"kind": "pie", "target": "15 ms"}, "ecn": True}
        >>> unsaid(pie, {"queue": {"kind": "fq-codel", "flows": 9}, "ecn": False}, "kind fq-codel")
        ['ecn']
    """
    mine, others = _settings(one), _settings(other)
    keys = differing(one, other)
    tables: list[str] = []
    for table in sorted(key.removesuffix("kind") for key in keys if key.endswith(".kind")):
        if not (tables and table.startswith(tables[-1])):
            tables.append(table)

    def is_in_one(key: str) -> bool:
        before = bisect(tables, key)
        return before > 0 and key.startswith(tables[before - 1])

    said = f" {label}"
    return [
        key
        for key in keys
        if not any(f"{before}{key.rpartition('.')[2]} " in said for before in " .")
        and not ((key not in mine or key not in others) and is_in_one(key))
    ]


def outside_words(outside: Mapping[str, Any]) -> dict[str, str]:
    """A run's parts from outside in words, by their place if there are several of a kind.

    Examples:
        >>> queue = {"class": "Pi2", "arguments": "target=0.02", "source": "..."}
        >>> outside_words({"queues": {"wan.forward": queue}, "plugins": []})
        {'queue': 'Pi2(target=0.02)'}
    """
    found: dict[str, str] = {}
    for kind in ("queues", "controls"):
        records = outside.get(kind)
        if not isinstance(records, Mapping):
            continue
        for place, record in records.items():
            if isinstance(record, Mapping):
                key = kind.removesuffix("s") if len(records) == 1 else str(place)
                found[key] = f"{record.get('class')}({record.get('arguments')})"
                found[key] += f" {record['version']}" if record.get("version") else ""
    plugins = outside.get("plugins")
    for number, plugin in enumerate(plugins if isinstance(plugins, list) else (), 1):
        if isinstance(plugin, Mapping):
            key = "plugin" if number == 1 else f"plugin {number}"
            found[key] = f"{plugin.get('file')} {str(plugin.get('sha256'))[:8]}"
    return found


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Each key's shortest end that no other key has.

    Examples:
        >>> short_keys(["queue.limit", "traffic.web.tcp.ecn", "traffic.downloads.tcp.ecn"])
        {'queue.limit': 'limit', 'traffic.web.tcp.ecn': 'web.tcp.ecn', \
'traffic.downloads.tcp.ecn': 'downloads.tcp.ecn'}
    """
    ends_first = {key: key.split(".")[::-1] for key in keys}
    # Keys whose ends have most in common are neighbours in this order.
    ordered = sorted(ends_first.items(), key=lambda item: item[1])
    common = [_in_common(one, next_one) for (_, one), (_, next_one) in pairwise(ordered)]
    lengths = {
        key: 1 + max(shared)
        for (key, _), shared in zip(ordered, pairwise([0, *common, 0]), strict=False)
    }
    return {key: ".".join(ends_first[key][: lengths[key]][::-1]) for key in keys}


def _in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many first parts are the same."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)


def _words(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that differ, in words; empty if they are too long or not enough."""
    every = dict.fromkeys(key for one in settings for key in one)
    differ = [key for key in every if any(one.get(key) != settings[0].get(key) for one in settings)]
    if len(differ) > LONGEST_WORDS * len(settings):
        return []  # some name would be longer
    short_of = short_keys(differ)
    found = [
        ", ".join(f"{short_of[key]} {_json(mine[key])}" for key in differ if key in mine)
        for mine in settings
    ]
    short = len(set(found)) == len(found) and max(map(len, found)) <= LONGEST_WORDS
    return found if short else []


def _kinds(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The kinds alone; a plugin's queue says more by its own name.

    Examples:
        >>> _kinds({"queue.kind": "plugin", "queue.name": "slope", "queue.most": 9})
        {'queue.kind': 'slope'}
    """
    kinds = {key: value for key, value in settings.items() if key.endswith(".kind")}
    for key, value in kinds.items():
        if value == "plugin":
            kinds[key] = settings.get(f"{key.removesuffix('kind')}name", value)
    return kinds


def _settings(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's settings by dotted key, without the seed; list entries by name or number."""
    found: dict[str, Any] = {}

    def walk(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(inner, f"{key}.{name}" if key else name)
        elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
            for number, inner in enumerate(value):
                walk(inner, f"{key}.{inner.get('name', number)}")
        else:
            found[key] = value

    walk(dict(scenario), "")
    for key in ("seed", "description"):
        found.pop(key, None)
    return found


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
