"""Shell completion of scenario files, reproduction ids and settings."""

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
    return [
        text if (entry / "sweep.json").exists() else f"{text}/"
        for text, entry in _below(incomplete)
        if entry.is_dir()
    ]


def runs(incomplete: str) -> list[str]:
    """Folders below what has been typed; those that hold a run come without a trailing slash."""
    return [
        text if (entry / "run.json").exists() else f"{text}/"
        for text, entry in _below(incomplete)
        if entry.is_dir()
    ]


def runs_and_sweeps(incomplete: str) -> list[str]:
    """Folders below what has been typed; those that hold either come without a trailing slash."""
    return [
        text if any((entry / name).exists() for name in ("run.json", "sweep.json")) else f"{text}/"
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


def backends(incomplete: str) -> list[str]:
    """Names of backends."""
    return [name for name in ("sim",) if name.startswith(incomplete)]
