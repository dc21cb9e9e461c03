"""Cells that contradict expectations, and cells in which nobody got an answer for a long time.

This compares many pairs of cells, each at 95 %, so some differ by chance: one in forty on each
side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport.factors import TRANSPORTS
from narrows.study.dns_transport.phrases import (
    KEPT,
    SECOND,
    base,
    fewer,
    present,
    transport_title,
)
from narrows.study.dns_transport.pooled import FACTORS, difference, mean, select


@dataclass
class Surprises:
    """The cells that were found, and the number of comparisons."""

    found: list[dict[str, str | float]] = field(default_factory=list)
    comparisons: int = 0
    """The number of compared pairs of cells. Only pairs with an interval count."""

    @property
    def by_chance(self) -> int:
        """How many comparisons would look certainly negative by chance alone."""
        return math.ceil(self.comparisons * 0.025)

    def note(self, gap: Interval | None, cell: dict[str, str], what: str) -> None:
        """Counts a comparison; keeps it if the difference is certainly negative and matters."""
        if gap is None or gap.count < 2:
            return
        self.comparisons += 1
        if fewer(gap):
            what = f"{what}, points within a second"
            self.found.append({**cell, "what": what, "value": gap.mean})


def surprises(runs: pl.DataFrame) -> Surprises:
    """Cells that contradict expectations, if the difference is certain and matters.

    It also lists silent cells: for more than a tenth of the time, nobody got an answer and the
    queue's length stood still. That is no surprise if the path drops replies.
    """
    found = Surprises()
    at = [factor for factor in FACTORS if factor != "transport"]
    for key, part in runs.group_by(at, maintain_order=True):
        cell = dict(zip(at, map(str, key), strict=True))
        pairs = [(line.name, line.unmarked, "ECN costs") for line in TRANSPORTS if line.unmarked]
        pairs += [(kept, new, "a persistent connection costs") for new, kept in KEPT]
        for one, other, why in pairs:
            gap = difference(part, SECOND, {"transport": one}, {"transport": other})
            words = f"{why}, against {transport_title(other)}"
            found.note(gap, {"transport": one, **cell}, words)
        for name in present(part, "transport"):
            silent = mean(part, "silent_percent", {"transport": name})
            if cell["path"] == "clean" and silent is not None and silent.mean > 10.0:
                where: dict[str, str | float] = {"transport": name, **cell}
                found.found.append(where | {"what": "silent, % of the time", "value": silent.mean})
    at = ["place", "transport", "load"]
    for key, part in select(runs, base()).group_by(at, maintain_order=True):
        cell = dict(zip(at, map(str, key), strict=True))
        for queue in present(part, "queue"):
            if queue != "fifo":
                gap = difference(part, SECOND, {"queue": queue}, {"queue": "fifo"})
                found.note(gap, {**cell, "queue": queue}, "worse than FIFO")
    return found
