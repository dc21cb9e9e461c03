"""K6: goodput and fairness with buffers of 5 and 10 % of the bandwidth-delay product."""

from __future__ import annotations

import math
import statistics

from narrows.reproduce.claims import SHARE, Claim, Worded
from narrows.reproduce.kantawala_2002.cells import HOPS, ROUND_TRIPS, SINGLE, name
from narrows.reproduce.kantawala_2002.claims.comparing import (
    BETTER,
    NEAR_OPTIMAL,
    OURS,
    PERCENT,
    Runs,
    cells_of,
    compared,
)
from narrows.reproduce.kantawala_2002.queues import QUEUES, SHARED, TITLES

TENTH = (200, 400)
"""Buffers of 5 and 10 % of the single bottleneck's bandwidth-delay product, 4167 packets."""

ELSEWHERE = ((ROUND_TRIPS, 400), (HOPS, 400))
"""The buffer between 5 and 10 % of the product that ran in the other networks.

With the mean round trip of the flows at a bottleneck, 120 and 180 ms, the product is 5000 and 7500
packets.
"""

_TENTH_ALIKE = (
    "With 200 and 400 packets, no queue carries more than 87 % of the link, and the queues differ "
    "by 5 % at most."
)


def small_buffers() -> list[Claim]:
    """K6: goodput in the single bottleneck, and fairness in all three networks."""
    claims = []
    near_optimal = Worded(f"near optimal: at least {NEAR_OPTIMAL:g} %", "at least", NEAR_OPTIMAL)
    for which in OURS:
        claims.append(
            compared(
                "K6",
                f"{TITLES[which]}: goodput with 5 and 10 % of the bandwidth-delay product, gain "
                "over the best of Tail Drop, RED and Blue",
                PERCENT,
                SINGLE,
                TENTH,
                (which, *SHARED),
                "goodput.all",
                lambda by_queue, which=which: (  # type: ignore[misc]
                    100.0 * (by_queue[which] / max(by_queue[w] for w in SHARED) - 1.0)
                ),
                worded=Worded(
                    f"significantly outperforms them: at least {BETTER:g} %", "at least", BETTER
                ),
                reason=_TENTH_ALIKE,
            )
        )

        def of_best(runs: Runs, which: str = which) -> float:
            goodput = {cell: run["goodput.all"] for cell, run in runs.items()}
            small = [name("single", which, limit) for limit in TENTH]
            if not all(cell in goodput for cell in small):
                return math.nan
            return 100.0 * statistics.fmean(goodput[cell] for cell in small) / max(goodput.values())

        claims.append(
            Claim(
                "K6",
                f"{TITLES[which]}: goodput with 5 and 10 % of the bandwidth-delay product, of the "
                "best that any queue had with any buffer",
                PERCENT,
                cells_of(SINGLE, SINGLE.limits, QUEUES),
                of_best,
                worded=near_optimal,
            )
        )
        claims += [
            compared(
                "K6",
                f"{TITLES[which]}: Jain's fairness of the flows' goodput with such buffers{place}",
                PERCENT,
                topology,
                limits,
                (which,),
                "jain.all",
                lambda by_queue: 100.0 * next(iter(by_queue.values())),
                worded=near_optimal,
                bounds=SHARE,
            )
            for topology, limits, place in (
                (SINGLE, TENTH, ""),
                *((where, (limit,), f", {where.title}") for where, limit in ELSEWHERE),
            )
        ]
    return claims
