"""The example scenarios that come with narrows: their list, and copies to edit.

They are package data, in `narrows/examples`. In a checkout that folder holds links to `scenarios/`,
and a wheel holds the files themselves. The first paragraph of a scenario's comment is its title.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from narrows.errors import NarrowsError
from narrows.scenario.suggestions import suggestion

_FOLDER = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Example:
    """A scenario that comes with narrows.

    Attributes:
        name: Its name, which is the file's without `.toml`.
        title: What it shows, in a line.
        path: Where it is.
    """

    name: str
    title: str
    path: Path

    def files(self) -> list[Path]:
        """The scenario's file, and those beside it that it names, such as a trace."""
        named = _texts(tomllib.loads(self.path.read_text(encoding="utf-8")))
        beside = {path.name: path for path in _FOLDER.iterdir() if path != self.path}
        return [self.path, *(beside[name] for name in dict.fromkeys(named) if name in beside)]


def examples() -> list[Example]:
    """All examples, by name.

    Examples:
        >>> next(each.title for each in examples() if each.name == "dns-behind-red")
        'DNS behind RED.'
    """
    return [Example(path.stem, _title(path), path) for path in sorted(_FOLDER.glob("*.toml"))]


def example(name: str) -> Example:
    """Finds an example by its name, with or without `.toml`.

    Raises:
        NarrowsError: No example has this name.
    """
    known = {each.name: each for each in examples()}
    found = known.get(name.removesuffix(".toml"))
    if found is None:
        hint = suggestion(name, list(known))
        raise NarrowsError(f"{name}: no such example; hint: {hint}")
    return found


def copy_example(name: str, into: str | Path = ".") -> list[Path]:
    """Copies an example, with the files that it names, into a folder, and returns the copies.

    Raises:
        NarrowsError: There is no such example, or the folder already has a file with the name of a
            copy. Nothing is copied then.
        OSError: The folder cannot be written.
    """
    files = example(name).files()
    folder = Path(into)
    for file in files:
        if os.path.lexists(folder / file.name):
            there = folder / file.name
            raise NarrowsError(f"{there}: already exists; hint: move it, or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copyfile(file, folder / file.name)) for file in files]


def _title(path: Path) -> str:
    """The first paragraph of the comment at its head."""
    lines = path.read_text(encoding="utf-8").splitlines()
    said = itertools.takewhile(bool, (line.removeprefix("#").strip() for line in lines))
    return " ".join(said)


def _texts(value: object) -> Iterator[str]:
    """All strings in a TOML document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
