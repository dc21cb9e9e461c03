"""Compares queues over several buffers, and holds what several claims share.

Gains are of one queue over another at the same buffer, in percent, paired by seed. If the paper
says "below 2000 packets" or "for all buffer sizes", the gain is averaged over the buffers that were
run, or its worst value is taken.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from narrows.reproduce.claims import Claim, Measured
from narrows.reproduce.kantawala_2002.cells import Topology, name

PERCENT = "%"

ALIKE = 5.0
"""Percent within which "almost exactly the same", "similar" and "does not change" hold."""
NEAR_OPTIMAL = 90.0
"""Percent of the best goodput, and of perfect fairness, from which "near optimal" holds."""
BETTER = 20.0
"""Percent from which "significantly" holds: in K2, K6 and K11 alike."""

OURS = ("tdrr", "qsdrr")
"""The paper's own queues: "our policies"."""

THROUGHPUT = (
    "Several hundred flows keep the link busy behind every queue, so there is little to gain: from "
    "5000 packets on, all carry 95 % of the link or more."
)
FAIRNESS = (
    "The size of the difference depends on what TCP does between bursts and on its loss recovery, "
    "which the paper does not print."
)
STARVED = (
    "The buffer of 100 packets decides: each of a thousand flows has at most one packet in it, and "
    "the end-to-end flows starve behind the queues that drop from the longest flow."
)


Runs: TypeAlias = Mapping[str, Measured]
ByQueue: TypeAlias = Mapping[str, float]
"""One metric of each queue, at one buffer."""


def _at_each(
    topology: Topology,
    limits: Iterable[int],
    queues: Sequence[str],
    key: str,
    of: Callable[[ByQueue], float],
    over: Callable[[list[float]], float],
    variant: str = "",
) -> Callable[[Runs], float]:
    """Applies `of` to the queues' metrics at each buffer, and `over` to the results.

    Only buffers that were run count: another choice has some of them.
    """
    kept = tuple(limits)

    def measure(runs: Runs) -> float:
        values = []
        for limit in kept:
            cells = {which: name(topology.name, which, limit, variant) for which in queues}
            if all(cell in runs for cell in cells.values()):
                values.append(of({which: runs[cell][key] for which, cell in cells.items()}))
        return over(values) if values else math.nan

    return measure


def cells_of(topology: Topology, limits: Iterable[int], queues: Iterable[str]) -> tuple[str, ...]:
    """The cells of these queues at these buffers, as far as the network has them."""
    wanted = set(limits)
    return tuple(
        name(topology.name, which, limit)
        for which in queues
        for limit in topology.limits
        if limit in wanted
    )


def compared(
    id: str,
    metric: str,
    unit: str,
    topology: Topology,
    limits: Sequence[int],
    queues: Sequence[str],
    key: str,
    of: Callable[[ByQueue], float],
    over: Callable[[list[float]], float] = statistics.fmean,
    **more: Any,
) -> Claim:
    """A claim about a metric of several queues at the same buffers; `more` has other fields."""
    return Claim(
        id,
        metric,
        unit,
        cells_of(topology, limits, queues),
        _at_each(topology, limits, queues, key, of, over),
        **more,
    )


def below(topology: Topology, bound: int) -> tuple[int, ...]:
    """The buffers that are smaller than the bound, in packets."""
    return tuple(limit for limit in topology.limits if limit < bound)


def gain_over(which: str, others: Sequence[str], sign: int = 1) -> Callable[[ByQueue], float]:
    """Percent by which a queue is above the others' mean, or below it with `sign` -1."""

    def of(by_queue: ByQueue) -> float:
        mean = statistics.fmean(by_queue[other] for other in others)
        ratio = by_queue[which] / mean if sign > 0 else mean / by_queue[which]
        return 100.0 * (ratio - 1.0)

    return of


def spread(by_queue: ByQueue) -> float:
    """Largest minus smallest, in percent of the mean."""
    values = list(by_queue.values())
    return 100.0 * (max(values) - min(values)) / statistics.fmean(values)
