"""K11 and K13: how much goodput varies over the flows, and the queue over time."""

from __future__ import annotations

import math

from narrows.reproduce.claims import Claim, Worded
from narrows.reproduce.kantawala_2002.cells import HOPS, ROUND_TRIPS, SINGLE, name
from narrows.reproduce.kantawala_2002.claims.comparing import (
    ALIKE,
    BETTER,
    FAIRNESS,
    OURS,
    PERCENT,
    THROUGHPUT,
    Runs,
    cells_of,
    compared,
    gain_over,
)
from narrows.reproduce.kantawala_2002.queues import QUEUES, TITLES

PACKET_BITS, RATE = 1500 * 8, 500e6
"""The bytes of a packet, and the rate of the single bottleneck in bit/s."""

_HALF_SECOND = "The sources pause for 2 s between bursts, so the largest buffer does not fill."


def variance() -> list[Claim]:
    """K11: variance of goodput over the flows, and what larger buffers gain."""
    claims = []
    for topology in (SINGLE, ROUND_TRIPS, HOPS):
        for which in OURS:
            for other in ("red", "blue"):
                claims.append(
                    compared(
                        "K11",
                        f"{topology.title}: variance of goodput over flows, {TITLES[which]} over "
                        f"{TITLES[other]}, mean over buffers",
                        "",
                        topology,
                        topology.limits,
                        (which, other),
                        "deviation.all",
                        lambda by_queue, which=which, other=other: (  # type: ignore[misc]
                            (by_queue[which] / by_queue[other]) ** 2
                        ),
                        worded=Worded(
                            f"significantly lower: by at least {BETTER:g} %",
                            "at most",
                            1.0 - BETTER / 100.0,
                        ),
                        reason=FAIRNESS,
                    )
                )
                claims.append(
                    compared(
                        "K11",
                        f"{topology.title}: mean goodput, gain of {TITLES[which]} over "
                        f"{TITLES[other]}, mean over buffers",
                        PERCENT,
                        topology,
                        topology.limits,
                        (which, other),
                        "goodput.all",
                        gain_over(which, (other,)),
                        worded=Worded(
                            f"significantly higher: by at least {BETTER:g} %", "at least", BETTER
                        ),
                        reason=THROUGHPUT,
                    )
                )
    claims.append(
        compared(
            "K11",
            f"{TITLES['droptail']}: time that a buffer of 20000 packets holds, on average",
            "s",
            SINGLE,
            (20_000,),
            ("droptail",),
            "backlog",
            lambda by_queue: by_queue["droptail"] * PACKET_BITS / RATE,
            published=0.5,
            tolerance=0.1,
            note="Large buffers stay close to full, says the paper: half a second.",
            reason=_HALF_SECOND,
        )
    )
    for which in QUEUES:

        def gain(runs: Runs, which: str = which) -> float:
            large, product = (runs.get(name("single", which, n)) for n in (20_000, 5000))
            if large is None or product is None:
                return math.nan
            return 100.0 * (large["goodput.all"] / product["goodput.all"] - 1.0)

        claims.append(
            Claim(
                "K11",
                f"{TITLES[which]}: goodput gained from 5000 to 20000 packets",
                PERCENT,
                cells_of(SINGLE, (5000, 20_000), (which,)),
                gain,
                worded=Worded(f"only marginal: at most {ALIKE:g} %", "at most", ALIKE),
            )
        )
    return claims


def hysteresis() -> list[Claim]:
    """K13: bursts that drops hit, and how far the queue varies."""
    return [
        compared(
            "K13",
            "bursts in which a packet was sent again, share of all: QSDRR over DRR, mean over "
            "buffers",
            "",
            SINGLE,
            SINGLE.limits,
            ("qsdrr", "drr"),
            "bursts_hit",
            lambda by_queue: by_queue["qsdrr"] / by_queue["drr"],
            worded=Worded("affects fewer flows than DRR", "at most", 1.0),
            note="A burst stands for a short-lived flow, and a drop makes it send a packet again. "
            "Over the whole run: which flows a single congestion hits is not recorded.",
        ),
        compared(
            "K13",
            "standard deviation of the queue's length: QSDRR over DRR, mean over buffers",
            "",
            SINGLE,
            SINGLE.limits,
            ("qsdrr", "drr"),
            "backlog_deviation",
            lambda by_queue: by_queue["qsdrr"] / by_queue["drr"],
            worded=Worded("smaller queue length variations than DRR", "at most", 1.0),
        ),
        Claim(
            "K13",
            "RED and Blue: goodput lost with the settings that are best in another topology",
            PERCENT,
            (),
            lambda _: math.nan,
            worded=Worded(
                "sensitive to congestion and topology: needs a search in each", "at least", BETTER
            ),
        ),
    ]
