"""Period kernels, by name: the changes to the source before a guest is built from it.

`METER` and its edits (`guest.toml`, one folder up) apply to every guest. Each period kernel is a
TOML file in this folder: a title, the TCP profile of the resulting kernel, the version of the
source that the edits fit, arguments for the kernel's command line, and the edits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from narrows.backends.backend import BackendError
from narrows.backends.kernel.kernels.edits import Edit, apply

__all__ = ["METER", "Edit", "PeriodKernel", "apply", "find", "meter", "names"]

_FOLDER = Path(__file__).parent

METER = _FOLDER.parent / "guest.toml"
"""The edits for every guest."""


@dataclass(frozen=True)
class PeriodKernel:
    """A period kernel: one that behaves like the kernels of an earlier year."""

    name: str
    file: Path
    title: str
    profile: str
    """The TCP profile of the kernel."""
    source: str
    """The version of the source that the edits fit."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Arguments for the kernel's command line."""
    edits: Sequence[Edit] = ()


@cache
def meter() -> Sequence[Edit]:
    """The edits to every guest's source: they meter the processor time of each node."""
    return [Edit(**edit) for edit in tomllib.loads(METER.read_text())["edit"]]


@cache
def names() -> Sequence[str]:
    """The names of all period kernels."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@cache
def find(name: str) -> PeriodKernel:
    """The kernel of this name.

    Raises:
        BackendError: There is no such kernel.
    """
    if name not in names():
        raise BackendError(name, "no such kernel", f"one of {', '.join(names())}")
    file = _FOLDER / f"{name}.toml"
    text = tomllib.loads(file.read_text())
    edits = [Edit(**edit) for edit in text.pop("edit")]
    return PeriodKernel(name, file, **text, edits=edits)
