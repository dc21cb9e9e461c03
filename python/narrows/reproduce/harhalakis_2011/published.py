"""A transcription of what the paper prints in Tables I to IV. Nothing here is ours."""

from __future__ import annotations

from dataclasses import dataclass

QUERIES = 20_000
"""Measured queries of each run: 100 workers, 200 queries each."""

TIMEOUTS_S = (1, 2, 2, 4, 8)
"""The Windows resolver's schedule (section V)."""

ATTEMPTS: dict[str, tuple[int, int, int, int, int]] = {
    # Table I.
    "fifo-300": (19474, 505, 21, 0, 0),
    # Tables I and II.
    "red-300-none": (17928, 1876, 176, 17, 3),
    # Table II.
    "red-300-half": (17535, 2135, 282, 46, 2),
    "red-300-all": (16924, 2629, 383, 56, 8),
}
"""Queries replied on attempts 1 to 5."""

FIRST_ATTEMPT: dict[str, int] = {
    # Table IV.
    "fifo-200-20": 18285,
    "red-200-20-none": 16129,
    "red-200-20-half": 13606,
    "red-200-20-all": 8278,
    "fifo-200-50": 18513,
    "red-200-50-none": 16819,
    "red-200-50-half": 15073,
    "red-200-50-all": 9156,
    "fifo-300": 19474,
    "red-300-none": 17928,
    "red-300-half": 17535,
    "red-300-all": 16924,
}
"""Queries replied on the first attempt."""

FIRST_ATTEMPT_PERCENT: dict[str, float] = {
    "fifo-200-20": 91.42,
    "red-200-20-none": 80.64,
    "red-200-20-half": 68.03,
    "red-200-20-all": 41.39,
    "fifo-200-50": 92.56,
    "red-200-50-none": 84.09,
    "red-200-50-half": 75.36,
    "red-200-50-all": 45.78,
    "fifo-300": 97.37,
    "red-300-none": 89.64,
    "red-300-half": 87.67,
    "red-300-all": 84.62,
}
"""The same as the paper prints it, in percent."""


@dataclass(frozen=True)
class Confidence:
    """A row of Table III: three samples, in percent."""

    mean: float
    deviation: float
    half_width: float
    """At 99 %, as printed: 2.576 sd / sqrt(3)."""
    low: float
    high: float


CONFIDENCE: dict[str, Confidence] = {
    "red-300-none": Confidence(89.91, 0.28618, 0.43, 89.48, 90.34),
    "red-300-half": Confidence(87.95, 0.30139, 0.45, 87.50, 88.40),
    "red-300-all": Confidence(85.00, 0.42665, 0.63, 84.37, 85.63),
}

RED_RISE_PERCENT = 30.0
"""Figure 2: with RED the drop rate rises by about this when DNS starts."""

FIGURE_2_DNS_START_S = 10.0
"""Figure 2: when DNS starts."""

EWMA_A = 0.9
"""Figure 2: V(n) = a V(n-1) + (1 - a) P(n), with P the drops of a 100 ms slot times ten."""

NOT_FULL_PERCENT = 97.0
"""Section VI: the FIFO queue is not full for about this share of the time (300 ms)."""
