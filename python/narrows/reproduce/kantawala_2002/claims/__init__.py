"""K1 to K13 with what the paper prints and the tolerances; reasons in README.md, "Tolerances"."""

from __future__ import annotations

from dataclasses import replace

from narrows.reproduce.kantawala_2002.claims.comparing import FAIRNESS, THROUGHPUT
from narrows.reproduce.kantawala_2002.claims.ratios import hops, round_trips
from narrows.reproduce.kantawala_2002.claims.scale import large, scaling
from narrows.reproduce.kantawala_2002.claims.sensitivity import tahoe, weights
from narrows.reproduce.kantawala_2002.claims.single import single_bottleneck
from narrows.reproduce.kantawala_2002.claims.small import small_buffers
from narrows.reproduce.kantawala_2002.claims.variation import hysteresis, variance

_SCALE = (
    "With pauses of 2 s, a source whose fair share is above about 1 Mbit/s cannot use all of it. "
    "Without pauses, only one of the six lines becomes flat."
)

_REASONS = {
    "K1": THROUGHPUT,
    "K2": FAIRNESS,
    "K3": FAIRNESS,
    "K4": FAIRNESS,
    "K5": FAIRNESS,
    "K6": "With buffers this small, no queue reaches more than 86 % of the best goodput, and one "
    "queue for all flows comes close to that.",
    "K7": _SCALE,
    "K10": "With 0.5, TDRR forgets an idle flow within a second; with 1e-6, the average hardly "
    "follows what a flow sends.",
    "K12": _SCALE,
}
"""The reason for claims that have none of their own."""

CLAIMS = [
    *single_bottleneck(),
    *round_trips(),
    *hops(),
    *small_buffers(),
    *scaling(),
    *tahoe(),
    *large(),
    *weights(),
    *variance(),
    *hysteresis(),
]
CLAIMS = [replace(claim, reason=claim.reason or _REASONS.get(claim.id, "")) for claim in CLAIMS]
CLAIMS.sort(key=lambda claim: int(claim.id[1:]))
