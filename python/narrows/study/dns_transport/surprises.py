"""Cells that contradict what one would expect, and cells that were frozen."""

from __future__ import annotations

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport.factors import TRANSPORTS
from narrows.study.dns_transport.phrases import KEPT, SECOND, base, fewer, transport_title
from narrows.study.dns_transport.pooled import difference, mean, select

__all__ = ["surprises"]


def surprises(runs: pl.DataFrame) -> list[dict[str, str | float]]:
    """Cells that contradict what one would expect, where the difference is sure and matters.

    Frozen cells too: those in which the queue stood still for more than a tenth of the time.
    """
    found: list[dict[str, str | float]] = []
    at = ["queue", "load", "path", "round_trip", "reply", "neighbours"]
    for key, part in runs.group_by(at, maintain_order=True):
        cell = dict(zip(at, map(str, key), strict=True))
        pairs = [(line.name, line.ecn_of, "ECN costs") for line in TRANSPORTS if line.ecn_of]
        pairs += [(kept, new, "a kept connection costs") for new, kept in KEPT]
        for one, other, why in pairs:
            gap = difference(part, SECOND, {"transport": one}, {"transport": other})
            if gap is not None:
                _note(
                    found,
                    gap,
                    {"transport": one, **cell},
                    f"{why}, against {transport_title(other)}",
                )
        for name in part["transport"].unique(maintain_order=True).to_list():
            frozen = mean(part, "frozen_percent", {"transport": name})
            if frozen is not None and frozen.mean > 10.0:
                found.append(
                    {
                        "transport": str(name),
                        **cell,
                        "what": "frozen for this share of the time, %",
                        "value": frozen.mean,
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
            _note(found, gap, {**cell, "queue": str(queue)}, "worse than FIFO")
    for key, part in plane.group_by(("transport", "queue"), maintain_order=True):
        cell = dict(zip(("transport", "queue"), map(str, key), strict=True))
        gap = difference(part, SECOND, {"load": "none"}, {"load": "bursts"})
        _note(found, gap, cell, "no load is worse than bursts")
    return found


def _note(
    found: list[dict[str, str | float]],
    gap: Interval | None,
    cell: dict[str, str],
    what: str,
) -> None:
    if gap is not None and fewer(gap):
        found.append({**cell, "what": f"{what}, points within a second", "value": gap.mean})
