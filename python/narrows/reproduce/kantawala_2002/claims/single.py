"""K1: the single bottleneck."""

from __future__ import annotations

from narrows.reproduce.claims import NOT_NEGATIVE, Claim, Worded
from narrows.reproduce.kantawala_2002.cells import SINGLE
from narrows.reproduce.kantawala_2002.claims.comparing import (
    ALIKE,
    PERCENT,
    ByQueue,
    below,
    compared,
    gain_over,
    spread,
)
from narrows.reproduce.kantawala_2002.queues import FAMILY, QUEUES, SHARED, TITLES

GAIN_TOLERANCE = 5.0
"""Of "about 10 %" and of "almost 30 %" times 1.5: percent."""

_ALIKE_BUT_SMALLEST = (
    "The buffer of 100 packets decides. From 400 packets on, the three differ by 2 % at most."
)
_WORSE_AT_SMALLEST = (
    "The buffer of 100 packets decides: there, the DRR family does worse. DRR itself is better "
    "than the others only at 20000 packets."
)


def single_bottleneck() -> list[Claim]:
    """K1: goodput and completion time of each queue at the single bottleneck."""
    claims = []
    goodput = ("mean goodput", "goodput.all", 1)
    completion = ("burst completion time", "completion.all", -1)
    for words, metric, sign in (goodput, completion):
        claims.append(
            compared(
                "K1",
                f"{words}: spread of Tail Drop, RED and Blue, worst buffer",
                PERCENT,
                SINGLE,
                SINGLE.limits,
                SHARED,
                metric,
                spread,
                max,
                worded=Worded(
                    f"almost exactly the same at every buffer: at most {ALIKE:g} % apart",
                    "at most",
                    ALIKE,
                ),
                reason=_ALIKE_BUT_SMALLEST,
                bounds=NOT_NEGATIVE,
            )
        )

        def worst_gain(by_queue: ByQueue, sign: int = sign) -> float:
            family = [by_queue[which] for which in FAMILY]
            shared = [by_queue[which] for which in SHARED]
            ratio = min(family) / max(shared) if sign > 0 else min(shared) / max(family)
            return 100.0 * (ratio - 1.0)

        claims.append(
            compared(
                "K1",
                f"{words}: worst of the DRR family against best of the others, worst buffer",
                PERCENT,
                SINGLE,
                SINGLE.limits,
                QUEUES,
                metric,
                worst_gain,
                min,
                worded=Worded(
                    "the DRR family is uniformly better, at every buffer", "at least", 0.0
                ),
                reason=_WORSE_AT_SMALLEST,
            )
        )
        for which in ("tdrr", "qsdrr"):
            claims.append(
                compared(
                    "K1",
                    f"{words}: gain of {TITLES[which]} below 2000 packets",
                    PERCENT,
                    SINGLE,
                    below(SINGLE, 2000),
                    (which, *SHARED),
                    metric,
                    gain_over(which, SHARED, sign),
                    published=10.0,
                    tolerance=GAIN_TOLERANCE,
                )
            )
        claims.append(
            compared(
                "K1",
                f"{words}: gain of QSDRR at 5000 packets",
                PERCENT,
                SINGLE,
                (5000,),
                ("qsdrr", *SHARED),
                metric,
                gain_over("qsdrr", SHARED, sign),
                published=30.0,
                tolerance=1.5 * GAIN_TOLERANCE,
            )
        )
    return claims
