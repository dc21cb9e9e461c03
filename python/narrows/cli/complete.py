"""Shell completion of scenario files, reproduction ids and settings."""

from __future__ import annotations

from pathlib import Path


def scenarios(incomplete: str) -> list[str]:
    """Scenario files (`*.toml`) and folders below what has been typed."""
    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    if not folder.is_dir():
        return []
    found = []
    for entry in sorted(folder.iterdir()):
        text = f"{entry}/" if entry.is_dir() else str(entry)
        if text.startswith(incomplete) and (entry.is_dir() or entry.suffix == ".toml"):
            found.append(text)
    return found


def runs(incomplete: str) -> list[str]:
    """Folders below what has been typed; those that hold a run come without a trailing slash."""
    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    if not folder.is_dir():
        return []
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and str(entry).startswith(incomplete):
            found.append(str(entry) if (entry / "run.json").exists() else f"{entry}/")
    return found


def ids(incomplete: str) -> list[str]:
    """Ids of papers and claims."""
    from narrows.reproduce import ids as known

    return [id for id in known() if id.lower().startswith(incomplete.lower())]


def backends(incomplete: str) -> list[str]:
    """Names of backends."""
    return [name for name in ("sim",) if name.startswith(incomplete)]
