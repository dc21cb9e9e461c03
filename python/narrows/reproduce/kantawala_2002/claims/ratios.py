"""K2 to K5: flows with unlike round trips, and flows over several hops."""

from __future__ import annotations

import statistics

from narrows.reproduce.claims import Claim, Worded
from narrows.reproduce.kantawala_2002.cells import HOPS, ROUND_TRIPS
from narrows.reproduce.kantawala_2002.claims.comparing import (
    BETTER,
    FAIRNESS,
    PERCENT,
    STARVED,
    below,
    compared,
    gain_over,
)
from narrows.reproduce.kantawala_2002.queues import FAMILY, QUEUES, SHARED, TITLES

NEAR_ONE = 0.25
"""Tolerance of a ratio that "remains close to one"."""
RATIO_TOLERANCE = 0.1
"""Tolerance of a goodput ratio that is read off a figure."""
SHARE_TOLERANCE = 10.0
"""Tolerance of "80 % of their fair share" and "40 %"."""


# Long: a list of statements.
def round_trips() -> list[Claim]:
    """K2 and K3: flows of 200 ms against flows of 40 ms; K2 also for several hops."""
    small = below(ROUND_TRIPS, 1000)
    claims = [
        compared(
            "K2",
            f"goodput ratio 200 ms / 40 ms below 1000 packets: {TITLES[which]} over "
            f"{TITLES[other]}",
            "",
            ROUND_TRIPS,
            small,
            (which, other),
            "ratio",
            lambda by_queue, which=which, other=other: by_queue[which] / by_queue[other],  # type: ignore[misc]
            worded=Worded("outperforms it by more than 100 %", "at least", 2.0),
        )
        for which in ("tdrr", "qsdrr")
        for other in ("red", "blue")
    ]
    claims += [
        compared(
            "K2",
            f"goodput ratio 200 ms / 40 ms: gain of Tail Drop over {TITLES[other]}",
            PERCENT,
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            ("droptail", other),
            "ratio",
            gain_over("droptail", (other,)),
            worded=Worded(f"significantly better: at least {BETTER:g} %", "at least", BETTER),
        )
        for other in ("red", "blue")
    ]
    claims += [
        compared(
            "K2",
            f"{TITLES[which]}: goodput of the 200 ms flows, of their fair share, mean over buffers",
            PERCENT,
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            (which,),
            "far_share",
            lambda by_queue: next(iter(by_queue.values())),
            published=share,
            tolerance=SHARE_TOLERANCE,
            note="The abstract names no buffer: the mean over all that were run.",
            reason=FAIRNESS,
        )
        for queues, share in ((FAMILY, 80.0), (("red", "blue"), 40.0))
        for which in queues
    ]
    claims += [
        compared(
            "K2",
            f"multi-hop: end-to-end flows' share of the link, {TITLES[which]} over RED and Blue, "
            "mean over buffers",
            "",
            HOPS,
            HOPS.limits,
            (which, "red", "blue"),
            "far_share",
            lambda by_queue, which=which: (  # type: ignore[misc]
                by_queue[which] / statistics.fmean((by_queue["red"], by_queue["blue"]))
            ),
            published=2.0,
            tolerance=0.4,
            note="A performance improvement similar to that of 80 over 40 %; our reading of it.",
            reason=FAIRNESS,
        )
        for which in FAMILY
    ]
    claims += [
        compared(
            "K3",
            f"{TITLES[which]}: completion ratio 200 ms / 40 ms",
            "",
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            (which,),
            "ratio_completion",
            lambda by_queue: next(iter(by_queue.values())),
            published=1.0,
            tolerance=NEAR_ONE,
        )
        for which in ("tdrr", "qsdrr")
    ]
    claims.append(
        compared(
            "K3",
            "Blue: completion ratio 200 ms / 40 ms at 5000 packets",
            "",
            ROUND_TRIPS,
            (5000,),
            ("blue",),
            "ratio_completion",
            lambda by_queue: by_queue["blue"],
            published=3.0,
            tolerance=0.5,
        )
    )
    claims.append(
        compared(
            "K3",
            "completion ratio 200 ms / 40 ms: Blue minus the highest of the others",
            "",
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            QUEUES,
            "ratio_completion",
            lambda by_queue: (
                by_queue["blue"]
                - max(value for which, value in by_queue.items() if which != "blue")
            ),
            worded=Worded("Blue has the worst performance", "at least", 0.0),
        )
    )
    return claims


# Long: a list of statements.
def hops() -> list[Claim]:
    """K4 and K5: flows over all hops against the cross traffic of one."""
    claims = [
        compared(
            "K4",
            f"{TITLES[which]}: goodput ratio end-to-end / cross",
            "",
            HOPS,
            HOPS.limits,
            (which,),
            "ratio",
            lambda by_queue: next(iter(by_queue.values())),
            published=0.3,
            tolerance=RATIO_TOLERANCE,
        )
        for which in SHARED
    ]
    claims += [
        compared(
            "K4",
            f"goodput ratio end-to-end / cross below 2000 packets: gain of {TITLES[which]}",
            PERCENT,
            HOPS,
            below(HOPS, 2000),
            (which, *SHARED),
            "ratio",
            gain_over(which, SHARED),
            published=40.0,
            tolerance=15.0,
        )
        for which in ("drr", "qsdrr")
    ]
    claims.append(
        compared(
            "K4",
            "goodput ratio end-to-end / cross at 5000 packets: QSDRR over the non-DRR queues",
            "",
            HOPS,
            (5000,),
            ("qsdrr", *SHARED),
            "ratio",
            lambda by_queue: by_queue["qsdrr"] / statistics.fmean(by_queue[w] for w in SHARED),
            published=2.0,
            tolerance=0.4,
        )
    )
    claims.append(
        compared(
            "K4",
            "goodput ratio end-to-end / cross: TDRR against the best of the others, worst buffer",
            PERCENT,
            HOPS,
            HOPS.limits,
            QUEUES,
            "ratio",
            lambda by_queue: (
                100.0
                * (
                    by_queue["tdrr"] / max(v for which, v in by_queue.items() if which != "tdrr")
                    - 1.0
                )
            ),
            min,
            worded=Worded("TDRR outperforms all policies", "at least", 0.0),
            reason=STARVED,
        )
    )
    claims.append(
        compared(
            "K5",
            "TDRR: completion ratio end-to-end / cross",
            "",
            HOPS,
            HOPS.limits,
            ("tdrr",),
            "ratio_completion",
            lambda by_queue: by_queue["tdrr"],
            published=1.0,
            tolerance=NEAR_ONE,
            reason=STARVED,
        )
    )
    claims += [
        compared(
            "K5",
            f"{TITLES[which]}: completion ratio end-to-end / cross at 5000 packets",
            "",
            HOPS,
            (5000,),
            (which,),
            "ratio_completion",
            lambda by_queue: next(iter(by_queue.values())),
            **said,
        )
        for queues, said in (
            (("drr", "qsdrr"), {"worded": Worded("a ratio of under two", "at most", 2.0)}),
            (SHARED, {"published": 3.75, "tolerance": 0.5}),
        )
        for which in queues
    ]
    claims += [
        compared(
            "K5",
            f"completion ratio end-to-end / cross: non-DRR over {TITLES[which]}, mean over buffers",
            "",
            HOPS,
            HOPS.limits,
            (which, *SHARED),
            "ratio_completion",
            lambda by_queue, which=which: (
                statistics.fmean(by_queue[w] for w in SHARED)  # type: ignore[misc]
                / by_queue[which]
            ),
            worded=Worded("beats them by at least a factor of two", "at least", 2.0),
            note="The sentence names no buffer: the mean over all that were run.",
            reason=FAIRNESS,
        )
        for which in ("drr", "qsdrr")
    ]
    return claims
