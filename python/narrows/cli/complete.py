"""Shell completion of scenario files, folders, reproduction ids and backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def scenarios(incomplete: str) -> list[str]:
    """Scenario files (`*.toml`) and folders below the typed path."""
    return [
        f"{text}/" if entry.is_dir() else text
        for text, entry in _below(incomplete)
        if entry.is_dir() or entry.suffix == ".toml"
    ]


def sweeps(incomplete: str) -> list[str]:
    """Folders below the typed path; those that hold a sweep have no trailing slash."""
    return _holding(incomplete, "sweep.json")


def runs_and_sweeps(incomplete: str) -> list[str]:
    """Folders below the typed path; those that hold a run or a sweep have no trailing slash."""
    return _holding(incomplete, "run.json", "sweep.json")


def _holding(incomplete: str, *files: str) -> list[str]:
    """Folders; those that hold one of the files have no trailing slash."""
    return [
        text if any((entry / name).exists() for name in files) else f"{text}/"
        for text, entry in _below(incomplete)
        if entry.is_dir()
    ]


def _below(incomplete: str) -> list[tuple[str, Path]]:
    """Files and folders that begin with the typed text: in the user's form, and as a path."""
    folder, slash, begin = incomplete.rpartition("/")
    place = Path(folder + slash)
    if not place.is_dir():
        return []
    entries = sorted(entry for entry in place.iterdir() if entry.name.startswith(begin))
    return [(folder + slash + entry.name, entry) for entry in entries]


def ids(incomplete: str) -> list[str]:
    """Ids of papers and claims."""
    from narrows.reproduce import ids as known

    return [id for id in known() if id.lower().startswith(incomplete.lower())]


def studies(incomplete: str) -> list[str]:
    """Names of studies."""
    from narrows.study import names

    return [name for name in names() if name.startswith(incomplete)]


def examples(incomplete: str) -> list[str]:
    """Names of example scenarios."""
    from narrows.scenario import examples as known

    return [each.name for each in known() if each.name.startswith(incomplete)]


def backends(incomplete: str) -> list[str]:
    """Names of backends."""
    from narrows.backends import BACKENDS

    return [name for name in BACKENDS if name.startswith(incomplete)]


def keys(incomplete: str, args: list[str]) -> list[str]:
    """Keys of the scenario on the command line for `--set`, each with `=`.

    They are the keys that the file gives and those that its tables may have; `queue` is the
    monitored queue.
    """
    from narrows import Scenario, ScenarioError

    path = next((word for word in args if word.endswith(".toml")), None)
    if path is None or "=" in incomplete:
        return []
    try:
        scenario = Scenario.load(path)
    except ScenarioError:
        return []
    found = dict.fromkeys(key for key in _keys_of(scenario, "") if key.startswith(incomplete))
    # If there are too many to read, each is cut off at its next dot.
    if len(found) > MOST_COMPLETIONS:
        ends = (key.find(".", len(incomplete)) for key in found)
        found = dict.fromkeys(
            key if end < 0 else key[: end + 1] for key, end in zip(found, ends, strict=True)
        )
    return list(found)


MOST_COMPLETIONS = 60


def _keys_of(value: Any, key: str) -> Iterator[str]:
    """The dotted keys of a table of the language, including those of inner tables."""
    for name in type(value).model_fields:
        inner, whole = getattr(value, name), f"{key}.{name}" if key else name
        if isinstance(inner, tuple) and any(hasattr(entry, "name") for entry in inner):
            for entry in inner:
                yield from _keys_of(entry, f"{whole}.{entry.name}")
        elif hasattr(type(inner), "model_fields"):
            yield from _keys_of(inner, whole)
            if name == "queue":
                yield from _keys_of(inner, "queue")
        elif name not in ("kind", "name"):
            yield f"{whole}="
