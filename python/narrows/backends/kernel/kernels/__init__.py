"""Further guest kernels, by name: what differs from the plain guest when one is built.

`METER` and its edits (`guest.toml`, one folder up) apply to every guest. Each further kernel is a
TOML file in this folder: a title, the TCP profile of the resulting kernel, the version of its
source, lines of its configuration, arguments for its command line, and edits of its source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from narrows.backends.backend import BackendError
from narrows.backends.kernel.kernels.edits import Edit, Version, apply

__all__ = ["METER", "PLAIN", "Edit", "Guest", "Version", "apply", "find", "meter", "names"]

_FOLDER = Path(__file__).parent

METER = _FOLDER.parent / "guest.toml"
"""The edits for every guest."""


@dataclass(frozen=True)
class Guest:
    """A guest kernel to build: plain, of an earlier year, or newer."""

    name: str
    file: Path | None
    """The file that declares it; None for the plain guest."""
    title: str
    profile: str
    """The TCP profile of the kernel."""
    source: str
    """The version of the source: 6.1, or 7 for any 7.N."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Arguments for the kernel's command line."""
    config: Sequence[str] = ()
    """Lines that follow those of guest.config."""
    unknown: Sequence[str] = ()
    """Lines of guest.config that this version does not know."""
    edits: Sequence[Edit] = ()
    lacks: Sequence[str] = ("dualpi2", "AccECN", "TCP of Linux 7", "bands of fq")
    """Queue disciplines and features of queues and TCP that the guest does not have."""

    def takes(self, version: Version) -> bool:
        """Whether the kernel can be built from a source of this version."""
        return self.source in (str(version.major), str(version))


PLAIN = Guest("", None, "", "linux-6", "6")
"""The guest that `narrows kernel prepare` builds: Linux 6, preferably 6.1, which the edits know."""


@cache
def meter() -> Sequence[Edit]:
    """The edits to every guest's source: they meter the processor time of each node."""
    return [Edit(**edit) for edit in tomllib.loads(METER.read_text())["edit"]]


@cache
def names() -> Sequence[str]:
    """The names of all further kernels."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@cache
def find(name: str) -> Guest:
    """The kernel of this name.

    Raises:
        BackendError: There is no such kernel.
    """
    if name not in names():
        raise BackendError(name, "no such kernel", f"one of {', '.join(names())}")
    file = _FOLDER / f"{name}.toml"
    text = tomllib.loads(file.read_text())
    edits = [Edit(**edit) for edit in text.pop("edit", ())]
    return Guest(name, file, **text, edits=edits)
