"""The folder of an unfinished bench, which one sitting or several measure.

Each step (a round of a part, or something that is done once) is one line of JSON, which is appended
and synced when the step is over. A process that is killed therefore loses only the current step,
and the next sitting continues after the last whole line. The first line describes the bench. A
folder of a bench with another form, program, server or machine is refused, because its rounds must
not be mixed with ours. `finish` removes the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from narrows.results.errors import RunFolderError
from narrows.results.folder import check_target
from narrows.results.gateway_bench import BENCH_TABLES, JOURNAL
from narrows.results.locked_lines import LockedLines

from .recording import Rows

FORMAT = 1

Facts = Mapping[str, Any]
"""What must be equal in all sittings, by the name that a message gives it."""


@dataclass(frozen=True)
class Sitting:
    """A process that measured."""

    started_at: str
    """By the wall clock, in UTC."""
    start_s: float
    """Seconds that earlier sittings had measured."""
    kernel: str
    processor: str
    pid: int


@dataclass(frozen=True)
class Done:
    """A measured step."""

    part: str
    round: int
    took_s: float
    end_s: float
    """From the start of the bench; time between sittings does not count."""
    not_measured: list[str]
    """Intervals and arms that failed, each with the reason."""
    rows: Rows = field(repr=False)


class Journal(LockedLines):
    """The measured steps, on disk."""

    def __init__(self, folder: Path, facts: Facts) -> None:
        """Opens a folder: new or empty, or of an unfinished bench of the same facts.

        Nothing is written before `begin`.

        Raises:
            RunFolderError: It holds something else, another process measures into it, or it cannot
                be read.
        """
        self.folder = folder
        self.facts: Facts = json.loads(json.dumps(facts))
        self.arms: list[str] = []
        self.not_made: list[str] = []
        self.done: list[Done] = []
        self._sittings: list[Sitting] = []
        self._path = folder / JOURNAL
        if not unfinished(folder):
            check_target(folder)
            return
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND)
            self._take_over()
            self._read()
        except OSError as error:
            self.close()
            raise RunFolderError.of_system(self._path, error) from None
        except BaseException:
            self.close()
            raise

    def begin(self, arms: Sequence[str], not_made: Sequence[str], sitting: Sitting) -> None:
        """Begins a sitting.

        Args:
            arms: All arms that can be measured, in the plan's order.
            not_made: Arms that cannot be measured, each with the reason.
            sitting: This one.

        Raises:
            RunFolderError: Earlier sittings measured other arms, or the folder cannot be written.
        """
        if self._file is None:
            self.arms, self.not_made = list(arms), list(not_made)
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                # If two begin at once, only one gets the file.
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
                self._file = os.open(self._path, flags, 0o666)
                self._take_over()
            except OSError as error:
                raise RunFolderError.of_system(self._path, error) from None
            head = {"format": FORMAT, "facts": self.facts}
            self._add("bench", {**head, "arms": self.arms, "not_made": self.not_made})
        elif list(arms) != self.arms:
            odd = sorted(set(arms) ^ set(self.arms)) or ["another order"]
            why = "; ".join(not_made)
            raise RunFolderError(
                self.folder,
                f"holds a bench of other arms ({', '.join(odd)}){f': {why}' if why else ''}",
                "fix what keeps them from starting, or choose another folder with --out",
            )
        self._add("sitting", asdict(sitting))
        self._sittings.append(sitting)

    def add(self, done: Done) -> None:
        """Keeps a step.

        Raises:
            RunFolderError: It cannot be written, such as to a full disk; earlier steps stay.
        """
        self._add("step", asdict(done))
        self.done.append(done)

    def finish(self) -> None:
        """Removes the file, because the bench is complete.

        Raises:
            RunFolderError: It cannot be removed.
        """
        try:
            self._path.unlink()
        except OSError as error:
            raise RunFolderError.of_system(self._path, error) from None
        self.close()

    @property
    def end_s(self) -> float:
        """Seconds that were measured so far."""
        return self.done[-1].end_s if self.done else 0.0

    @property
    def not_measured(self) -> list[str]:
        """Arms and intervals that could not be measured, each with the reason."""
        return self.not_made + [line for done in self.done for line in done.not_measured]

    @property
    def sittings(self) -> list[Sitting]:
        """The sittings that measured a step; if none did, the last."""
        ends = [sitting.start_s for sitting in self._sittings[1:]] + [float("inf")]
        found = [
            sitting
            for sitting, end_s in zip(self._sittings, ends, strict=False)
            if any(sitting.start_s < done.end_s <= end_s for done in self.done)
        ]
        return found or self._sittings[-1:]

    @property
    def processes(self) -> list[int]:
        """Process numbers of all sittings, including those that measured nothing."""
        return [sitting.pid for sitting in self._sittings]

    def _take_over(self) -> None:
        self._lock(self.folder, "bench", "wait for it, or choose another folder with --out")

    def _add(self, kind: str, value: Mapping[str, Any]) -> None:
        self._append(self._path, {kind: value}, sync=True)

    def _read(self) -> None:
        """Reads what earlier sittings measured, and drops a line that a kill cut off."""
        assert self._file is not None, "it was opened"
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        try:
            for number, line in enumerate(lines, 1):
                ((kind, value),) = json.loads(line).items()
                if (kind == "bench") != (number == 1):
                    raise ValueError(kind)
                self._take(kind, value)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RunFolderError(
                self._path, f"is damaged (line {number})", "choose another folder with --out"
            ) from None
        if whole < len(data):
            os.ftruncate(self._file, whole)
        if not lines:
            # It was killed at its beginning.
            self._path.unlink()
            self.close()

    def _take(self, kind: str, value: dict[str, Any]) -> None:
        if kind == "bench":
            if value["format"] != FORMAT:
                raise RunFolderError(
                    self._path,
                    f"has format {value['format']}, but this narrows reads {FORMAT}",
                    "go on with the narrows that wrote it, or choose another folder with --out",
                )
            self._check_same(value["facts"])
            self.arms, self.not_made = list(value["arms"]), list(value["not_made"])
        elif kind == "sitting":
            self._sittings.append(Sitting(**value))
        else:
            done = Done(**value)
            known = {(earlier.part, earlier.round) for earlier in self.done}
            if kind != "step" or (done.part, done.round) in known:
                raise ValueError(kind)
            for name, table in BENCH_TABLES.items():
                wanted = {column.name for column in table.columns}
                if any(row.keys() != wanted for row in done.rows[name]):
                    raise ValueError(name)
            self.done.append(done)

    def _check_same(self, before: dict[str, Any]) -> None:
        """Refuses a bench with other facts."""
        for name in [*self.facts, *before]:
            old, new = before.get(name), self.facts.get(name)
            if old == new:
                continue
            hint = "choose another folder with --out"
            if name in OPTIONS:
                hint = f"give the same options as for it, or {hint}"
            elif name in PROGRAMS:
                hint = f"build the same commit in the same way, or {hint}"
            raise RunFolderError(
                self.folder,
                f"holds a bench with {name} {_text(old)}, and this one has {_text(new)}",
                hint,
            )


OPTIONS = (
    *("form", "servers", "rates", "rounds", "seconds"),
    *("fast rates", "fast rounds", "fast seconds"),
    *("saturating rates", "saturating rounds", "idle connections", "looks"),
)
"""Facts that follow from the command line."""

PROGRAMS = ("gateway program", "generator program")
"""Facts that follow from a build: the first digits of checksums."""


def unfinished(folder: Path) -> bool:
    """Whether a folder holds an unfinished bench."""
    return (folder / JOURNAL).is_file()


def _text(value: object) -> str:
    """A fact for people."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
