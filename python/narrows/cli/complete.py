"""Shell completion of scenario files, folders, reproduction ids and backends."""

from __future__ import annotations

from pathlib import Path


def scenarios(incomplete: str) -> list[str]:
    """Scenario files (`*.toml`) and folders below what has been typed."""
    return [
        f"{text}/" if entry.is_dir() else text
        for text, entry in _below(incomplete)
        if entry.is_dir() or entry.suffix == ".toml"
    ]


def sweeps(incomplete: str) -> list[str]:
    """Folders below what has been typed; those that hold a sweep come without a trailing slash."""
    return _holding(incomplete, "sweep.json")


def runs_and_sweeps(incomplete: str) -> list[str]:
    """Folders below what has been typed; those that hold either come without a trailing slash."""
    return _holding(incomplete, "run.json", "sweep.json")


def _holding(incomplete: str, *files: str) -> list[str]:
    """Folders; those that hold one of the files come without a trailing slash."""
    return [
        text if any((entry / name).exists() for name in files) else f"{text}/"
        for text, entry in _below(incomplete)
        if entry.is_dir()
    ]


def _below(incomplete: str) -> list[tuple[str, Path]]:
    """What begins with what has been typed: as the user would have typed it, and its path."""
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


def backends(incomplete: str) -> list[str]:
    """Names of backends."""
    from narrows.backends import BACKENDS

    return [name for name in BACKENDS if name.startswith(incomplete)]
