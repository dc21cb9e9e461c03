"""What to call groups of runs that are set side by side: by what they differ in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Named", "distinct_labels"]

LONGEST_WORDS = 32
"""Characters that settings may take in a group's name; it heads a column."""


@dataclass(frozen=True)
class Named:
    """Something to be called by its name, and by more where others have the same."""

    name: str
    scenario: Mapping[str, Any]
    folder: Path | None


def distinct_labels(things: Sequence[Named]) -> list[str]:
    """What to call each: different names.

    The scenario's name; where several share it, with the settings in which they differ, or with
    the folder's name where those are many.
    """
    labels = [thing.name for thing in things]
    for name in sorted(set(labels)):
        places = [place for place, thing in enumerate(things) if thing.name == name]
        if len(places) == 1:
            continue
        settings = [_settings(things[place].scenario) for place in places]
        kinds = [{k: v for k, v in one.items() if k.endswith(".kind")} for one in settings]
        words = _words(settings) or _words(kinds)
        for number, place in enumerate(places):
            if words:
                labels[place] = ", ".join(filter(None, (name, words[number])))
            else:
                folder = things[place].folder
                labels[place] = f"{name} ({folder.name if folder else place + 1})"
    # Folders of different parents may have the same name.
    return [
        f"{label} [{number}]" if labels.count(label) > 1 else label
        for number, label in enumerate(labels, start=1)
    ]


def _words(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that differ, in words; empty where they are long or tell too little."""
    found = []
    for mine in settings:
        keys = [key for key in mine if any(other.get(key) != mine[key] for other in settings)]
        last = [key.rpartition(".")[2] for key in keys]
        if len(set(last)) < len(last):
            return []
        found.append(
            ", ".join(f"{word} {_json(mine[k])}" for word, k in zip(last, keys, strict=True))
        )
    short = len(set(found)) == len(found) and max(map(len, found)) <= LONGEST_WORDS
    return found if short else []


def _settings(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's settings by dotted key, the seed aside; list entries by name or number."""
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
