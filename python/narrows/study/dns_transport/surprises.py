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
from narrows.study.dns_transport.phrases import KEPT, SECOND, base, fewer, transport_title
from narrows.study.dns_transport.pooled import difference, mean, select


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
    at = ["queue", "load", "path", "round_trip", "reply", "neighbours"]
    for key, part in runs.group_by(at, maintain_order=True):
        cell = dict(zip(at, map(str, key), strict=True))
        pairs = [(line.name, line.ecn_of, "ECN costs") for line in TRANSPORTS if line.ecn_of]
        pairs += [(kept, new, "a persistent connection costs") for new, kept in KEPT]
        for one, other, why in pairs:
            gap = difference(part, SECOND, {"transport": one}, {"transport": other})
            if gap is not None:
                found.note(
                    gap, {"transport": one, **cell}, f"{why}, against {transport_title(other)}"
                )
        for name in part["transport"].unique(maintain_order=True).to_list():
            silent = mean(part, "silent_percent", {"transport": name})
            if cell["path"] == "clean" and silent is not None and silent.mean > 10.0:
                found.found.append(
                    {
                        "transport": str(name),
                        **cell,
                        "what": "silent, % of the time",
                        "value": silent.mean,
                    }
                )
    plane = select(runs, base())
    at = ["transport", "load"]
    for key, part in plane.group_by(at, maintain_order=True):
        cell = dict(zip(at, map(str, key), strict=True))
        for queue in part["queue"].unique(maintain_order=True).to_list():
            if queue == "fifo":
                continue
            gap = difference(part, SECOND, {"queue": queue}, {"queue": "fifo"})
            found.note(gap, {**cell, "queue": str(queue)}, "worse than FIFO")
    for key, part in plane.group_by(("transport", "queue"), maintain_order=True):
        cell = dict(zip(("transport", "queue"), map(str, key), strict=True))
        gap = difference(part, SECOND, {"load": "none"}, {"load": "bursts"})
        found.note(gap, cell, "no load is worse than bursts")
    return found
