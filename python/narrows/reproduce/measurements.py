"""What the runs of a reproduction measured, as a paper's tables and figures read it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from narrows.reproduce.cells import Row
from narrows.reproduce.claims import Measured, Series
from narrows.reproduce.statistics import Interval, t_interval

BASE = "base"
"""The name of the runs without a sensitivity row."""


@dataclass(frozen=True)
class Agreement:
    """One of our figures, compared with somebody else's measurement of the same test bed."""

    cell: str
    metric: str
    unit: str
    reference: tuple[float, ...]
    """Their values, one for each run."""
    low: float
    high: float
    """The upper end of the range in which our mean has to lie; `low` is the lower end."""
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
    """Runs by (sensitivity row or `base`, cell) and seed."""
    rows: Sequence[Row] = ()
    """Sensitivity rows that were asked for."""

    def runs(self, cell: str, row: str = BASE) -> dict[int, Measured]:
        """The runs of `cell` by seed; empty when there are none."""
        return self.measured.get((row, cell), {})

    def values(self, cell: str, figure: str, row: str = BASE) -> list[float]:
        """A figure of a cell, one value for each seed; runs where it is not finite are left out."""
        found = [run[figure] for _, run in sorted(self.runs(cell, row).items())]
        return [value for value in found if math.isfinite(value)]

    def values_at(self, cell: str, figure: str) -> list[float]:
        """The same for runs that need not all have the figure."""
        found = [run.values.get(figure, math.nan) for _, run in sorted(self.runs(cell).items())]
        return [value for value in found if math.isfinite(value)]

    def interval(self, cell: str, figure: str, row: str = BASE) -> Interval | None:
        """The 95 % interval of one figure of a cell over the seeds."""
        values = self.values(cell, figure, row)
        return t_interval(values) if values else None

    def curves(self, cell: str, name: str) -> list[Series]:
        """A curve of a cell, one for each seed."""
        return [
            run.curves[name] for _, run in sorted(self.runs(cell).items()) if name in run.curves
        ]
