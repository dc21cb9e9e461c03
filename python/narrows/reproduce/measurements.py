"""What the runs of a reproduction measured, for the paper's tables and plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from narrows.reproduce.cells import Choice
from narrows.reproduce.claims import Claim, Measured, Series
from narrows.reproduce.statistics import Interval, t_interval

BASE = "base"
"""The name of the runs without another choice."""


@dataclass(frozen=True)
class Agreement:
    """One of our metrics, compared with another measurement of the same test bed."""

    cell: str
    metric: str
    unit: str
    reference: tuple[float, ...]
    """Their values, one for each run."""
    low: float
    high: float
    """The upper end of the range in which our mean must lie; `low` is the lower end."""
    interval: Interval | None
    """Our 95 % interval."""

    @property
    def agrees(self) -> bool | None:
        """Whether our mean lies between `low` and `high`; `None` without runs."""
        return None if self.interval is None else self.low <= self.interval.mean <= self.high


@dataclass(frozen=True)
class Table:
    """A table of a paper, next to our values. Cells are text, ready to print."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(kw_only=True)
class Measurements:
    """The runs of one paper's cells."""

    seeds: Sequence[int]
    measured: dict[tuple[str, str], dict[int, Measured]] = field(default_factory=dict)
    """Runs by (choice or `base`, cell) and seed."""
    choices: Sequence[Choice] = ()
    """Other choices that were asked for."""

    def runs(self, cell: str, choice: str = BASE) -> dict[int, Measured]:
        """The runs of `cell` by seed; empty when there are none."""
        return self.measured.get((choice, cell), {})

    def values(self, cell: str, metric: str, choice: str = BASE) -> list[float]:
        """A metric of a cell, one value for each seed, without runs in which it is not finite."""
        found = [run[metric] for _, run in sorted(self.runs(cell, choice).items())]
        return [value for value in found if math.isfinite(value)]

    def values_at(self, cell: str, metric: str) -> list[float]:
        """The same for a metric that some runs lack."""
        found = [run.values.get(metric, math.nan) for _, run in sorted(self.runs(cell).items())]
        return [value for value in found if math.isfinite(value)]

    def interval(self, cell: str, metric: str, choice: str = BASE) -> Interval | None:
        """The 95 % interval of one metric of a cell over the seeds."""
        values = self.values(cell, metric, choice)
        return t_interval(values) if values else None

    def curves(self, cell: str, name: str) -> list[Series]:
        """A curve of a cell, one for each seed."""
        return [
            run.curves[name] for _, run in sorted(self.runs(cell).items()) if name in run.curves
        ]

    def claim_values(
        self, claim: Claim, choice: Choice | None = None, like: Choice | None = None
    ) -> list[float]:
        """The claim's metric, one value for each seed with which all its cells were run.

        Args:
            claim: The claim.
            choice: Another choice; `None`: the base runs.
            like: Use only the cells and seeds of the base runs that this choice has too.
        """
        shape = choice or like
        cells = [
            cell for cell in claim.cells if shape is None or not shape.alone or shape.touches(cell)
        ]
        sources = {cell: self._source(cell, choice) for cell in cells}
        kept = sources if like is None else {cell: self._source(cell, like) for cell in cells}
        common = [
            seed
            for seed in self.seeds
            if all(seed in sources[cell] and seed in kept[cell] for cell in cells)
        ]
        values = [
            claim.measure({cell: source[seed] for cell, source in sources.items()})
            for seed in common
            if cells
        ]
        return [value for value in values if math.isfinite(value)]

    def claim_interval(
        self, claim: Claim, choice: Choice | None = None, like: Choice | None = None
    ) -> Interval | None:
        """The 95 % interval of the claim's statistic over the seeds; arguments as above."""
        values = self.claim_values(claim, choice, like)
        return claim.interval(values) if values else None

    def _source(self, cell: str, choice: Choice | None) -> Mapping[int, Measured]:
        """The runs of a cell under a choice, or the base runs if it does not change the cell."""
        if choice is None or not choice.touches(cell):
            return self.runs(cell)
        if choice.runs_again:
            return self.runs(cell, choice.name)
        return {seed: run.reading(choice.reads) for seed, run in self.runs(cell).items()}
