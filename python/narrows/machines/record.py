"""The record of a part: a folder with `record.json` and its tables."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from narrows.backends.kernel import live
from narrows.errors import argument
from narrows.foreign_text import parsed, regular_bytes
from narrows.machines.clocks import Offset
from narrows.machines.errors import MachineError
from narrows.machines.parts import ROLES, Part
from narrows.results.folder import refuse_others
from narrows.unfinished import write_whole

FORMAT = "narrows-record 2"
FILE = "record.json"

TABLES = "tables.json"
"""The tables that narrows-live has written."""

SAMPLES = "samples.json"
"""A monitor's samples."""

_KEPT = ("flows", "queries", "attempts")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "run": str,
    "role": str,
    "node": str,
    "digest": str,
    "seed": int,
    "scenario": dict,
    "started": str,
    "stopped": str,
    "end_s": (int, float),
    "late_s": (int, float),
    "differs": list,
    "host": dict,
    "clock": dict,
    "files": dict,
}


class Clock(NamedTuple):
    """How far the clock that counts was ahead of the machine's, before and after the run."""

    before: Offset
    after: Offset | None
    """The offset after the run; None if the connection was lost."""

    @property
    def uncertainty_s(self) -> float:
        """How far the machine's times may be off: the offsets' uncertainties plus the drift."""
        if self.after is None:
            return self.before.uncertainty_s
        drift = abs(self.after.offset_s - self.before.offset_s)
        return drift + max(self.before.uncertainty_s, self.after.uncertainty_s)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A part's record."""

    run: str
    part: Part
    digest: str
    seed: int
    scenario: Mapping[str, Any]
    """The scenario as it was written."""
    started: str
    stopped: str
    end_s: float
    late_s: float
    """Seconds between the start and the beginning of its programs."""
    clock: Clock
    differs: Sequence[str] = ()
    """TCP settings of the machine that differ from the scenario's."""
    host: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)
    """The results of the part's programs, by file name."""

    def save(self, folder: Path) -> None:
        """Writes the record, with `record.json` last."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            write_whole(folder / name, json.dumps(content).encode())
        document = {
            "format": FORMAT,
            "run": self.run,
            **self.part._asdict(),
            "digest": self.digest,
            "seed": self.seed,
            "scenario": self.scenario,
            "started": self.started,
            "stopped": self.stopped,
            "end_s": self.end_s,
            "late_s": self.late_s,
            "differs": list(self.differs),
            "clock": {
                when: None if offset is None else offset._asdict()
                for when, offset in self.clock._asdict().items()
            },
            "host": self.host,
            "files": dict.fromkeys(self.files),
        }
        write_whole(folder / FILE, json.dumps(document, indent=2).encode())

    @classmethod
    def load(cls, folder: Path) -> Record:
        """Reads a record.

        Raises:
            MachineError: The folder holds no record, or only a part of one.
        """
        document = _read(folder / FILE)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise MachineError(
                f"{folder / FILE}: is not a record of this version; hint: narrows merge takes "
                "the folders that traffic serve, traffic drive, resolve and monitor wrote"
            )
        for key, kind in _TYPES.items():
            if not isinstance(document.get(key), kind):
                raise MachineError(f"{folder / FILE}: {key}: missing or damaged; hint: run again")
        if document["role"] not in ROLES:
            raise MachineError(f"{folder / FILE}: role: {document['role']!r} is not known")
        names = list(document["files"])
        if not {TABLES, SAMPLES}.issuperset(names):
            raise MachineError(f"{folder / FILE}: files: damaged; hint: run again")
        try:
            before, after = (document["clock"][when] for when in ("before", "after"))
            clock = Clock(_offset(before), None if after is None else _offset(after))
        except (LookupError, TypeError, ValueError):
            raise MachineError(f"{folder / FILE}: clock: damaged; hint: run again") from None
        return cls(
            part=Part(document["role"], document["node"]),
            clock=clock,
            files={name: _read(folder / name) for name in names},
            **{key: document[key] for key in _TYPES.keys() - {"role", "node", "clock", "files"}},
        )


def gathered(place: Path) -> dict[str, Any]:
    """The tables that narrows-live left in its workspace.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged.
    """
    found = live.tables(place)
    return {
        TABLES: {
            name: {key: _plain(values) for key, values in found[name].items()}
            for name in _KEPT
            if name in found and len(next(iter(found[name].values())))
        }
    }


def _plain(values: Any) -> list[Any]:
    """A column for JSON, which has no NaN."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    return [None if value != value else value for value in listed]


def check_target(folder: Path) -> None:
    """Checks that a record can be written to a folder.

    Raises:
        RunFolderError: The folder already holds something.
        MachineError: The disk is full.
    """
    refuse_others(folder)
    free = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free
    if free < 1 << 20:
        raise MachineError(f"{folder}: the disk is full; hint: give another {argument('out')}")


def _offset(found: Mapping[str, Any]) -> Offset:
    offset = Offset(*(float(found[key]) for key in Offset._fields))
    if not math.isfinite(offset.offset_s) or not 0.0 <= offset.uncertainty_s < math.inf:
        raise ValueError(f"{offset} is not possible")
    return offset


def _read(path: Path) -> Any:
    try:
        return parsed(regular_bytes(path))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise MachineError(
            f"{path}: {why}; hint: name folders that narrows traffic, resolve or monitor wrote"
        ) from None
    except ValueError:
        raise MachineError(f"{path}: damaged; hint: run again") from None
