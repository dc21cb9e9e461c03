"""Intervals by resampling vantage points.

The 48 pairs of one probe and day are not independent, so a bootstrap draws whole vantage points
(Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8: resampling of
clusters). Replicates come from a fixed seed, so the same data give the same interval.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from narrows.records.numbers import Floats

Codes = npt.NDArray[np.int64]
Interval = tuple[float, float]

REPLICATES = 1_000
_SEED = 20120920
_BATCH = 100


def weights(vantages: int, replicates: int) -> Iterator[npt.NDArray[np.int64]]:
    """How often each vantage point is drawn, as batches of replicates (rows)."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    even = np.full(vantages, 1.0 / vantages)
    for done in range(0, replicates, _BATCH):
        yield rng.multinomial(vantages, even, size=min(_BATCH, replicates - done))


def percentile_interval(replicates: Floats, confidence: float = 0.95) -> Interval | None:
    """The percentile interval of replicates; None if too few of them are finite."""
    finite = replicates[np.isfinite(replicates)]
    if len(finite) < 0.9 * len(replicates) or len(finite) < 20:
        return None
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(finite, (tail, 1.0 - tail))
    return float(low), float(high)


def of_shares(
    hits: npt.NDArray[np.bool_], vantage: Codes, replicates: int = REPLICATES
) -> Interval | None:
    """The interval of a share; None with fewer than two vantage points.

    Args:
        hits: For each row, whether it counts.
        vantage: For each row, the number of its vantage point, from 0.
        replicates: The number of replicates.
    """
    count = int(vantage.max()) + 1 if len(vantage) else 0
    if count < 2:
        return None
    total = np.bincount(vantage, minlength=count)
    hit = np.bincount(vantage, weights=hits, minlength=count)
    found = [
        np.divide(
            batch @ hit, batch @ total, out=np.full(len(batch), np.nan), where=batch @ total > 0
        )
        for batch in weights(count, replicates)
    ]
    return percentile_interval(np.concatenate(found))


def of_medians(values: Floats, vantage: Codes, replicates: int = REPLICATES) -> Interval | None:
    """The interval of a median; None with fewer than two vantage points."""
    count = int(vantage.max()) + 1 if len(vantage) else 0
    if count < 2:
        return None
    order = np.argsort(values, kind="stable")
    ranked, owner = values[order], vantage[order]
    # Large sets have narrow intervals, for whose ends fewer replicates are enough.
    replicates = min(replicates, max(200, 20_000_000 // max(len(values), 1)))
    found = []
    for batch in weights(count, replicates):
        for drawn in batch:
            reached = np.cumsum(drawn[owner])
            at = np.searchsorted(reached, (reached[-1] + 1) // 2)
            found.append(ranked[min(at, len(ranked) - 1)] if reached[-1] else np.nan)
    return percentile_interval(np.array(found))
