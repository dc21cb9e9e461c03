"""K8 and K10: whether Tahoe, and the weights of TDRR's averages, change the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from narrows.reproduce.claims import NOT_NEGATIVE, Claim, Worded
from narrows.reproduce.kantawala_2002.cells import (
    ROUND_TRIPS,
    SINGLE,
    TAHOE_LIMITS,
    TOPOLOGIES,
    WEIGHT_LIMITS,
    WEIGHTS,
    name,
    weighted,
)
from narrows.reproduce.kantawala_2002.claims.comparing import ALIKE, PERCENT, Runs
from narrows.reproduce.kantawala_2002.queues import QUEUES, TITLES

_TAHOE = (
    "Tahoe reacts to each loss with slow start; Reno without SACK often waits for its timer. The "
    "two differ most if several packets of a window are lost."
)

_TAHOE_METRICS = {
    "single": (("goodput.all", "mean goodput"), ("completion.all", "burst completion time")),
    "rtt": (
        ("ratio", "goodput ratio 200 ms / 40 ms"),
        ("ratio_completion", "completion ratio 200 ms / 40 ms"),
    ),
    "hops": (
        ("ratio", "goodput ratio end-to-end / cross"),
        ("ratio_completion", "completion ratio end-to-end / cross"),
    ),
}
"""The paper's comparisons in each network, all of which are similar with Tahoe."""


def tahoe() -> list[Claim]:
    """K8: every configuration with Tahoe in place of Reno."""
    claims = []
    for network, metrics in _TAHOE_METRICS.items():
        limits = TAHOE_LIMITS[network]
        for metric, words in metrics:
            for which in QUEUES:
                pairs = [
                    (name(network, which, limit), name(network, which, limit, "tahoe"))
                    for limit in limits
                ]
                claims.append(
                    Claim(
                        "K8",
                        f"{TITLES[which]}: {words} with Tahoe against Reno, largest change",
                        PERCENT,
                        tuple(cell for pair in pairs for cell in pair),
                        _largest_change(pairs, metric),
                        worded=Worded(f"similar: at most {ALIKE:g} %", "at most", ALIKE),
                        note=""
                        if limits == TOPOLOGIES[network].limits
                        else f"Run with {_listed(limits)} packets; the paper means every buffer.",
                        reason=_TAHOE,
                        bounds=NOT_NEGATIVE,
                    )
                )
    return claims


def _listed(limits: Sequence[int]) -> str:
    return ", ".join(map(str, limits[:-1])) + f" and {limits[-1]}"


def _largest_change(pairs: Sequence[tuple[str, str]], metric: str) -> Callable[[Runs], float]:
    def worst(runs: Runs) -> float:
        changes = [
            abs(runs[tahoe][metric] / runs[reno][metric] - 1.0)
            for reno, tahoe in pairs
            if reno in runs and tahoe in runs
        ]
        return 100.0 * max(changes, default=math.nan)

    return worst


def weights() -> list[Claim]:
    """K10: TDRR's averages with other weights."""
    claims = []
    for topology, metric, words in (
        (SINGLE, "goodput.all", "mean goodput"),
        (ROUND_TRIPS, "ratio", "goodput ratio 200 ms / 40 ms"),
    ):
        pairs = [
            (name(topology.name, "tdrr", limit), weighted(topology.name, limit, weight))
            for limit in WEIGHT_LIMITS
            for weight in WEIGHTS
        ]

        def worst(
            runs: Runs,
            pairs: Sequence[tuple[str, str]] = tuple(pairs),
            metric: str = metric,
        ) -> float:
            return max(
                (
                    100.0 * abs(runs[other][metric] / runs[usual][metric] - 1.0)
                    for usual, other in pairs
                    if usual in runs and other in runs
                ),
                default=math.nan,
            )

        claims.append(
            Claim(
                "K10",
                f"TDRR, weights 0.5, 0.001 and 1e-6 against 0.03125: {words}, largest change",
                PERCENT,
                tuple(dict.fromkeys(cell for pair in pairs for cell in pair)),
                worst,
                worded=Worded(f"not very sensitive: at most {ALIKE:g} %", "at most", ALIKE),
                bounds=NOT_NEGATIVE,
            )
        )
    return claims
