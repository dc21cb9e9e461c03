"""`Sweep`: the results of many runs of one scenario, and the folder that keeps them.

    sweep.json      the varied keys, seeds, versions, and how it ended
    rows.jsonl      one line per run, appended when it ends: the record that survives a crash
    sweep.parquet   the table of all runs, written when the sweep ends (sweep.csv if wanted)
    runs/ID/        the run folders, if they were kept

The table is made from the lines alone, in the order of the varied values and seeds, so it does not
depend on the order in which runs ended, or where they ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, Literal

import polars as pl

from narrows.foreign_text import parsed, regular_bytes
from narrows.results.checked import is_summary
from narrows.results.documents import Kind
from narrows.results.drawing import drawn
from narrows.results.errors import RunFolderError
from narrows.results.folder import SWEEP_FILE
from narrows.results.plotted_sweep import PlottedSweep
from narrows.results.sweep_run import Axis, SweepRun, canonical
from narrows.results.sweep_table import sweep_table

__all__ = [
    "ROWS_FILE",
    "SWEEP_FILE",
    "SWEEP_FORMAT",
    "Sweep",
    "read_document",
    "read_rows",
]

ROWS_FILE = "rows.jsonl"
SWEEP_FORMAT = 1
"""Version of the sweep folder's format; a reader refuses any other."""

Status = Literal["complete", "failed", "partial", "running"]


@dataclass(frozen=True, repr=False)
class Sweep:
    """Runs of one scenario with varied keys and seeds, and their table.

    Attributes:
        name: The scenario's name.
        scenario: The scenario's values, with the settings for all runs, in TOML's types.
        axes: The varied keys, in the given order.
        seeds: The seeds with which each combination was run.
        runs: The runs that ended, in the table's order.
        narrows: The version that ran them.
        build: The build of the simulator's sources; empty if it is unknown.
        backend: What ran them.
        status: `complete`; `failed` if runs failed or ended early; `partial` if it was interrupted;
            `running` while it runs, or after it was killed.
        folder: The folder that keeps it; None if there is none.
        combinations: The number of combinations that it runs; None for all.
    """

    name: str
    scenario: Mapping[str, Any]
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    runs: tuple[SweepRun, ...]
    narrows: str
    status: Status
    folder: Path | None = None
    backend: str = "sim"
    combinations: int | None = None
    build: str = ""

    @classmethod
    def load(cls, folder: str | Path) -> Sweep:
        """Reads a sweep folder, even one of a sweep that was interrupted or killed.

        Raises:
            RunFolderError: It holds no sweep, a damaged one, or one of another format.
        """
        path = Path(folder)
        document = read_document(path)
        axes = tuple(map(Axis.of_document, document["vary"]))
        seeds = tuple(document["seeds"])
        rows = read_rows(path / ROWS_FILE)
        if document["only"] is not None:
            only = frozenset(document["only"])
            rows = [row for row in rows if row["run"] in only]
        return cls(
            name=document["name"],
            scenario=document["scenario"],
            axes=axes,
            seeds=seeds,
            runs=in_order(rows, axes, seeds, path),
            narrows=document["narrows"],
            backend=document["backend"],
            status=document["status"],
            folder=path,
            combinations=document.get("combinations"),
            build=document["build"],
        )

    @property
    def where(self) -> str:
        """The folder, or else the sweep's name, for messages."""
        return str(self.folder) if self.folder else self.name

    @cached_property
    def table(self) -> pl.DataFrame:
        """A row for each run: varied keys, seed, how it ended, and every metric of its summary."""
        return sweep_table(self.axes, self.runs)

    @property
    def keys(self) -> list[str]:
        """The varied keys."""
        return [axis.key for axis in self.axes]

    @property
    def variants(self) -> dict[str, Mapping[str, Any]]:
        """The keys that each variant sets, by its name; empty without variants."""
        return {name: sets for axis in self.axes for name, sets in (axis.sets or {}).items()}

    @property
    def total(self) -> int:
        """The number of runs in the sweep."""
        count = len(self.seeds)
        if self.combinations is not None:
            return count * self.combinations
        for axis in self.axes:
            count *= len(axis.values)
        return count

    @property
    def complete(self) -> bool:
        """Whether every run is there and reached its end."""
        return sum(run.complete for run in self.runs) == self.total

    @property
    def failures(self) -> list[SweepRun]:
        """Runs that failed or ended early."""
        return [run for run in self.runs if not run.complete]

    def counts(self) -> dict[str, int]:
        """The number of runs of each kind."""
        found = {"total": self.total}
        for status in ("complete", "partial", "failed"):
            found[status] = sum(run.status == status for run in self.runs)
        return {**found, "missing": self.total - len(self.runs)}

    def document(self) -> dict[str, Any]:
        """The JSON values that `narrows sweep --json` prints."""
        return {
            "folder": None if self.folder is None else str(self.folder),
            "status": self.status,
            "narrows": self.narrows,
            "build": self.build,
            "backend": self.backend,
            "runs": self.counts(),
            "vary": {axis.key: list(axis.values) for axis in self.axes},
            "variants": self.variants,
            "seeds": list(self.seeds),
            "failures": [
                {
                    "settings": dict(run.settings),
                    "seed": run.seed,
                    "message": run.message or f"stopped early: {run.stopped}",
                }
                for run in self.failures
            ],
            "table": self.table.to_dicts(),
        }

    def __repr__(self) -> str:
        varied = ", ".join(f"{axis.key} ({len(axis.values)})" for axis in self.axes)
        return (
            f"<Sweep {self.name}: {self.status}, {len(self.runs)} of {self.total} runs, "
            f"{varied or 'nothing varied'}, {len(self.seeds)} "
            f"seed{'' if len(self.seeds) == 1 else 's'}>"
        )

    def plot(
        self,
        metric: str | None = None,
        against: str | None = None,
        *,
        by: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> PlottedSweep:
        """A metric's means over the seeds, with 95 % intervals, against a varied key.

        Args:
            metric: A column of the table, or the end of its name; answers at the first attempt by
                default, or what the sweep has instead.
            against: The horizontal axis; the first varied key by default.
            by: Keys that distinguish the lines; all other varied keys by default.
            where: Only these values of varied keys.

        Returns:
            A `narrows.report.SweepPlot`, which a notebook shows.

        Raises:
            NarrowsError: There is no such metric or key, or nothing to draw.
        """
        plot: PlottedSweep = drawn("of_sweep", self, metric, against, by, where or {})
        return plot

    def _repr_html_(self) -> str:
        """A plot and the table of means, for notebooks."""
        return str(drawn("in_notebook", self))


def in_order(
    rows: Iterable[Mapping[str, Any]],
    axes: Sequence[Axis],
    seeds: Sequence[int],
    folder: Path | None,
) -> tuple[SweepRun, ...]:
    """Each run once, in the order of values and seeds; any other row replaces a failure's row."""
    place_of_seed = {seed: place for place, seed in enumerate(seeds)}
    found: dict[tuple[int, ...], SweepRun] = {}
    for row in rows:
        try:
            values = row["values"]
            place = tuple(
                axis.places[canonical(value)] for axis, value in zip(axes, values, strict=True)
            )
            at = (*place, place_of_seed[row["seed"]])
            if at in found and found[at].status != "failed":
                continue
            kept = row.get("folder")
            found[at] = SweepRun(
                run=row["run"],
                settings={axis.key: value for axis, value in zip(axes, values, strict=True)},
                seed=row["seed"],
                status=row["status"],
                stopped=row["stopped"],
                message=row["message"],
                end_s=row["end_s"],
                events=row["events"],
                summary=row["summary"] or {},
                folder=folder / kept if folder is not None and kept else None,
            )
        except (KeyError, TypeError, ValueError):
            where = folder / ROWS_FILE if folder is not None else Path(ROWS_FILE)
            raise RunFolderError(
                where, f"is damaged (a row that {SWEEP_FILE} does not know)", _AGAIN
            ) from None
    return tuple(run for _, run in sorted(found.items(), key=lambda item: item[0]))


def read_document(folder: Path) -> dict[str, Any]:
    """Reads and checks sweep.json.

    Raises:
        RunFolderError: There is none, or it is damaged or of another format.
    """
    path = folder / SWEEP_FILE
    document = _SWEEP.read(folder)
    # Sweeps of early versions do not name their backend, because there was only one, nor a build.
    document.setdefault("backend", "sim")
    document.setdefault("build", "")
    document.setdefault("combinations", None)
    document.setdefault("only", None)
    for key, kind in _KEYS.items():
        if not isinstance(document.get(key), kind):
            raise RunFolderError(path, f"is damaged ({key} is missing or of a wrong type)", _AGAIN)
    if document["status"] not in ("complete", "failed", "partial", "running"):
        raise RunFolderError(path, "is damaged (its status is not known)", _AGAIN)
    if not all(
        isinstance(axis, dict)
        and isinstance(axis.get("key"), str)
        and isinstance(axis.get("values"), list)
        and _is_sets(axis.get("sets"), axis["values"])
        for axis in document["vary"]
    ) or not all(type(seed) is int for seed in document["seeds"]):
        raise RunFolderError(path, "is damaged (vary or seeds)", _AGAIN)
    if not all(isinstance(run, str) for run in document["only"] or []):
        raise RunFolderError(path, "is damaged (only)", _AGAIN)
    return document


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of runs in the order in which they ended; none if there is no file.

    A last line without a line end is an incomplete row after a crash and does not count.

    Raises:
        RunFolderError: The file cannot be read, or another line is not a row.
    """
    try:
        text = regular_bytes(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    rows = []
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        try:
            row = parsed(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not _is_row(row):
            raise RunFolderError(path, f"is damaged (line {number})", _AGAIN)
        rows.append(row)
    return rows


def _is_sets(sets: Any, names: Sequence[Any]) -> bool:
    """Whether this can be what variants with these names set: None without variants."""
    return sets is None or (
        isinstance(sets, dict)
        and all(isinstance(keys, dict) for keys in sets.values())
        and list(sets) == names
    )


def _is_row(row: Mapping[str, Any]) -> bool:
    """Whether each entry has its type; the contents of `values` are checked with sweep.json."""
    number, summary = row.get("events"), row.get("summary")
    return (
        all(isinstance(row.get(key), kind) for key, kind in _ROW.items())
        and not isinstance(row["seed"], bool)
        and row["status"] in ("complete", "partial", "failed")
        and (number is None or (type(number) is int and number >= 0))
        and (summary is None or is_summary(summary))
    )


_ROW: dict[str, type | tuple[type, ...]] = {
    "run": str,
    "values": list,
    "seed": int,
    "status": str,
    "stopped": str,
    "message": str,
    "end_s": (int, float, NoneType),
    "folder": (str, NoneType),
}


_KEYS: dict[str, type | tuple[type, ...]] = {
    "backend": str,
    "narrows": str,
    "build": str,
    "name": str,
    "scenario": dict,
    "vary": list,
    "seeds": list,
    "status": str,
    "combinations": (int, NoneType),
    "only": (list, NoneType),
}

_AGAIN = "run the sweep again in another folder"
_HINT = "name a folder that narrows sweep wrote"
_SWEEP = Kind("sweep", SWEEP_FILE, SWEEP_FORMAT, _HINT, again=_AGAIN, anew="run the sweep again")
