"""The study itself: it runs what is missing, and makes tables of every run and cell.

FOLDER/operator/, home/ ... its sweeps, from which an interrupted study resumes
runs.parquet, cells.parquet a row for each run, a row for each cell
study.json                  what `--json` prints: how it was run, every cell, the tables
report.html, plots/         for people
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from narrows import _core
from narrows.foreign_text import parsed, regular_bytes
from narrows.results import RunFolderError, Sweep
from narrows.results.folder import refuse_others
from narrows.results.sweep_run import SweepRun, canonical
from narrows.study.dns_transport import cpu
from narrows.study.dns_transport.design import Block, blocks, level_names
from narrows.study.dns_transport.measure import MEASURED, SECTION
from narrows.study.dns_transport.pooled import FACTORS, over_seeds
from narrows.study.dns_transport.surprises import Surprises, surprises
from narrows.study.dns_transport.tables import Table, notes, tables
from narrows.sweeps import Progress, sweep

SEEDS = 5
"""The number of runs of each cell."""
QUICK_SEEDS = 3
"""The same with `quick`."""

STUDY_FILE = "study.json"
RUNS_FILE = "runs.parquet"


@dataclass(frozen=True, repr=False)
class Study:
    """The results of the study.

    Attributes:
        runs: A row for each run: the cell's factors, `seed`, `status`, the metrics of `measure`.
        seeds: The seeds of every cell.
        status: `complete`; `failed` if runs failed; `partial` after an interruption.
        failures: Runs that failed, in words.
        settings: What was asked for.
    """

    runs: pl.DataFrame
    seeds: tuple[int, ...]
    status: str
    failures: tuple[str, ...] = ()
    settings: Mapping[str, Any] | None = None

    @classmethod
    def load(cls, folder: str | Path) -> Study:
        """Reads a study from its folder.

        Raises:
            RunFolderError: The folder holds no study, or it cannot be read.
        """
        path = Path(folder)
        try:
            document = parsed(regular_bytes(path / STUDY_FILE))
            return cls(
                seeds=tuple(document["seeds"]),
                status=document["status"],
                failures=tuple(document["failures"]),
                settings=document["settings"],
                runs=pl.read_parquet(io.BytesIO(regular_bytes(path / RUNS_FILE))),
            )
        except FileNotFoundError:
            hint = "name a folder that narrows study wrote"
            raise RunFolderError(path, "holds no study", hint) from None
        except OSError as error:
            raise RunFolderError.of_system(path, error) from None
        except (ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
            raise RunFolderError(path, "is damaged", "run the same command again") from None

    @property
    def metrics(self) -> list[str]:
        """The columns that are metrics."""
        return [name for name in self.runs.columns if name not in (*FACTORS, "seed")]

    @cached_property
    def cells(self) -> pl.DataFrame:
        """A row for each cell: each metric's mean over seeds, and the ends of its 95 % interval.

        The interval is Student's over seeds, on a scale that keeps it in the possible range. For
        shares of queries, it is at least as wide as Wilson's over the queries. One seed gives no
        interval. The columns are named after those of `runs`, with `_low` and `_high` added.
        """
        rows = []
        for key, part in self.runs.group_by(FACTORS, maintain_order=True):
            row: dict[str, Any] = dict(zip(FACTORS, key, strict=True))
            row["seeds"] = part.height
            queries = int(part["queries"].sum())
            for name in self.metrics:
                values = part.get_column(name).drop_nulls().to_list()
                all_there = len(values) == part.height
                row |= _metric(name, values if all_there else [], queries)
            rows.append(row)
        return pl.DataFrame(rows, infer_schema_length=None)

    @cached_property
    def tables(self) -> list[Table]:
        """The metrics for each group of readers."""
        return tables(self.runs)

    @property
    def notes(self) -> list[str]:
        """What a reader of the tables must know."""
        return notes(self.runs)

    @cached_property
    def surprises(self) -> Surprises:
        """Cells that contradict expectations, and silent cells."""
        return surprises(self.runs)

    def document(self) -> dict[str, Any]:
        """What `--json` prints, as JSON values."""
        return {
            "study": "dns-transport",
            "narrows": _core.version,
            "status": self.status,
            "seeds": list(self.seeds),
            "settings": dict(self.settings or {}),
            "server_cpu": cpu.source(),
            "failures": list(self.failures),
            "runs": self.runs.height,
            "notes": self.notes,
            "tables": [
                {
                    "heading": each.heading,
                    "title": each.title,
                    "columns": list(each.columns),
                    "rows": [list(row) for row in each.rows],
                }
                for each in self.tables
            ],
            "surprises": self.surprises.found,
            "comparisons": self.surprises.comparisons,
            "cells": self.cells.to_dicts(),
        }

    def __repr__(self) -> str:
        return (
            f"<Study dns-transport: {self.status}, {self.cells.height} cells, "
            f"{self.runs.height} runs, {len(self.seeds)} seeds>"
        )


def dns_transport(
    *,
    out: str | Path | None = None,
    quick: bool = False,
    seeds: int | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    workers: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Study:
    """Runs the study, or the part that is missing in `out`. Ctrl-C ends it early, as partial.

    Args:
        out: The folder of its sweeps; by default they stay in memory. `write` adds the report.
        quick: Runs only CUBIC downloads and no load at each place, and paper H's cell, with fewer
            seeds.
        seeds: Runs per cell; `SEEDS` or `QUICK_SEEDS` by default.
        levels: Names of levels by factor, such as `{"transport": ["udp", "tcp-new"]}`; all by
            default.
        workers: Processes; by default one per core.
        progress: Called now and then with the progress.

    Raises:
        UnknownLevel: A factor has no such level.
        EmptyChoiceError: No cell has these levels.
        RunFolderError: `out` holds something else, or cannot be written.

    Examples:
        >>> from narrows.study import dns_transport
        >>> few = {"transport": ["udp"], "queue": ["fifo"], "load": ["none"], "place": ["home"]}
        >>> study = dns_transport(quick=True, seeds=2, levels=few, workers=1)
        >>> study.cells["transport", "without_retry_percent"].rows()
        [('udp', 100.0)]
    """
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    parts = blocks(levels or {}, variations=not quick)
    folder = None if out is None else Path(out)
    if folder is not None:
        refuse_others(folder, marks=[STUDY_FILE, *level_names()["place"]])
    total = sum(part.combinations for part in parts) * count
    done: list[Sweep] = []
    rows: list[pl.DataFrame] = []
    before = 0
    for part in parts:
        ended, known = sum(len(each.runs) for each in done), before

        def tell(at: Progress, ended: int = ended, known: int = known) -> None:
            if progress is not None:
                progress(Progress(ended + at.done, total, known + at.before, at.label))

        found = sweep(
            part.scenario,
            vary=part.vary,
            seeds=count,
            out=None if folder is None else folder / part.name,
            workers=workers,
            only=part.only,
            measure=MEASURED,
            progress=tell,
        )
        done.append(found)
        rows.append(_table(part, found.runs))
        if found.status == "partial":
            break
    status = "complete"
    if any(each.status == "partial" for each in done):
        status = "partial"
    elif any(not each.complete for each in done):
        status = "failed"
    failures = tuple(
        f"{part.name}, {_names(part, run)}, seed {run.seed}: "
        f"{run.message or f'stopped early: {run.stopped}'}"
        for part, each in zip(parts, done, strict=False)
        for run in each.failures
    )
    ended_well = [table for table in rows if table.width]
    return Study(
        # If no run is complete, the table has only its column names.
        runs=pl.concat(ended_well, how="diagonal_relaxed")
        if ended_well
        else pl.DataFrame(schema=dict.fromkeys(FACTORS, pl.String) | {"seed": pl.Int64}),
        seeds=tuple(range(1, count + 1)),
        status=status,
        failures=failures,
        settings={"quick": quick, "levels": {k: list(v) for k, v in (levels or {}).items() if v}},
    )


def _table(part: Block, runs: Sequence[SweepRun]) -> pl.DataFrame:
    rows = []
    for run in runs:
        if not run.complete or SECTION not in run.summary:
            continue
        metrics: Mapping[str, float | None] = run.summary[SECTION]
        names = {**part.fixed, **_levels(part, run)}
        rows.append(
            {
                **{factor: names[factor] for factor in FACTORS},
                "seed": run.seed,
                **metrics,
                # Flags of the run, such as a queue that stood still.
                "flagged_percent": 100.0 if run.flags else 0.0,
                **cpu.per_answer(names["transport"], metrics),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _levels(part: Block, run: SweepRun) -> dict[str, str]:
    """The names of a run's levels."""
    names = {}
    for factor in part.factors:
        known = {canonical(level.value): level.name for level in factor.levels}
        names[factor.name] = known[canonical(run.settings[factor.key])]
    return names


def _names(part: Block, run: SweepRun) -> str:
    return ", ".join(_levels(part, run).values())


def _metric(name: str, values: list[float], queries: int) -> dict[str, float | None]:
    if not values:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    interval = over_seeds(name, values, queries)
    if interval.count < 2:
        return {name: interval.mean, f"{name}_low": None, f"{name}_high": None}
    return {name: interval.mean, f"{name}_low": interval.low, f"{name}_high": interval.high}
