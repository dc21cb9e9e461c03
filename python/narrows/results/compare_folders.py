"""Compares run folders with each other, or sweep folders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TextIO

from narrows.errors import HintedError, NarrowsError, argument
from narrows.results.compare import Comparison, compare
from narrows.results.compare_sweeps import compare_sweeps
from narrows.results.folder import RUN_FILE
from narrows.results.run import Run
from narrows.results.sweep import SWEEP_FILE, Sweep
from narrows.results.text import TextTable


@dataclass(frozen=True)
class Comparisons:
    """One comparison of runs, or those of sweeps, each with its setting."""

    parts: tuple[Comparison, ...]
    of_sweeps: bool
    metrics: TextTable
    """All metrics, with their names."""

    @property
    def shown(self) -> Comparison | tuple[Comparison, ...]:
        """What a report shows."""
        return self.parts if self.of_sweeps else self.parts[0]

    def only(self, keys: Sequence[str]) -> Comparisons:
        """The comparisons of some metrics, named by their paths or the ends of these.

        Raises:
            NarrowsError: A metric does not exist.
        """
        return replace(self, parts=tuple(part.only(keys) for part in self.parts))

    def document(self) -> dict[str, Any]:
        """The comparisons as JSON values."""
        documents = [part.document() for part in self.parts]
        return {"comparisons": documents} if self.of_sweeps else documents[0]

    def print(
        self,
        to: TextIO,
        *,
        all_metrics: bool = False,
        form: Literal["text", "json", "latex"] = "text",
    ) -> None:
        """Prints a table for each, or one JSON document.

        Args:
            to: Where to print.
            all_metrics: Whether a table of all metrics' names follows the tables.
            form: Whether to print text, the JSON document, or tables for LaTeX.
        """
        if form == "json":
            print(json.dumps(self.document(), indent=2), file=to)
            return
        tables = [part.table() for part in self.parts]
        for number, table in enumerate([*tables, *([self.metrics] if all_metrics else [])]):
            to.write("\n" if number else "")
            table.print(to, latex=form == "latex")


def compare_folders(folders: Sequence[Path], against: Mapping[str, Any]) -> Comparisons:
    """Compares runs with runs, or sweeps with sweeps.

    Args:
        folders: Run folders, two or more, or sweep folders.
        against: Only for a single sweep; see `compare_sweeps`.

    Raises:
        NarrowsError: There is nothing to compare, or both runs and sweeps are given.
        RunFolderError: A folder cannot be read.
    """
    sweeps = [folder for folder in folders if (folder / SWEEP_FILE).is_file()]
    if sweeps and len(sweeps) < len(folders):
        other = next(folder for folder in folders if folder not in sweeps)
        what = "is a run" if (other / RUN_FILE).exists() else "is not a sweep"
        raise NarrowsError(
            f"{other}: {what}, but {sweeps[0]} is a sweep; hint: compare runs with runs, and "
            "sweeps with sweeps"
        )
    if sweeps:
        parts = compare_sweeps([Sweep.load(folder) for folder in folders], against)
    elif against:
        raise HintedError(
            argument("against"), "is for a sweep", "name the run to compare with first"
        )
    elif len(folders) < 2:
        raise NarrowsError(
            f"{folders[0]}: there is no run to compare it with; hint: name a second run"
        )
    else:
        parts = [compare([Run.load(folder) for folder in folders])]
    # All settings of a sweep have the same metrics, unless one lacks a kind of traffic.
    most = max(parts, key=lambda part: len(part.rows))
    return Comparisons(tuple(parts), bool(sweeps), most.metrics_table())
