"""Metrics of simulated runs for the test of coverage: what is drawn, not how it is judged.

A run's metric is a function of a random number between 0 and 1, so that the runs of two groups can
share as much chance as a test wants (a Gaussian copula). The shares are beta-binomial, because the
queries of one run are correlated: they meet the same full queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[Numbers], Numbers]
"""Makes metrics of runs from numbers that are uniform between 0 and 1."""

_GRID = np.linspace(-6.0, 6.0, 4001)
_PHI = np.array([NormalDist().cdf(x) for x in _GRID])


def share(rate: float, queries: int, correlation: float) -> Draw:
    """Per cent of a run's queries; `correlation` is that between two queries of one run."""
    if rate in (0.0, 1.0):
        return lambda u: np.full(u.shape, 100.0 * rate)
    known = range(queries + 1)
    chosen = [_log_beta(queries - k + 1, k + 1) + math.log(queries + 1) for k in known]
    if correlation:
        a, b = (part * (1.0 / correlation - 1.0) for part in (rate, 1.0 - rate))
        logs = [_log_beta(k + a, queries - k + b) - _log_beta(a, b) for k in known]
    else:
        logs = [k * math.log(rate) + (queries - k) * math.log1p(-rate) for k in known]
    return _discrete([log - of for log, of in zip(logs, chosen, strict=True)], 100.0 / queries)


def count(mean: float) -> Draw:
    """Poisson, such as timeouts."""
    known = range(int(10.0 * mean) + 30)
    return _discrete([k * math.log(mean) - mean - math.lgamma(k + 1) for k in known], 1.0)


def slow(rate: float, noise_ms: float) -> Draw:
    """20 ms, give or take half of the noise, or with this rate a second more: a repeated query."""

    def of(u: Numbers) -> Numbers:
        is_slow = u > 1.0 - rate
        rest = np.where(is_slow, (u - 1.0 + rate) / rate, u / (1.0 - rate))
        return 20.0 + 1000.0 * is_slow + noise_ms * (rest - 0.5)

    return of


def pairs(rng: np.random.Generator, repeats: int, seeds: int, correlation: float) -> list[Numbers]:
    """Two groups of `seeds` uniform numbers for each repeat, correlated seed by seed."""
    first, other = rng.standard_normal((2, repeats, seeds))
    second = correlation * first + math.sqrt(1.0 - correlation**2) * other
    return [np.interp(normal, _GRID, _PHI) for normal in (first, second)]


def drawn(
    rng: np.random.Generator, draws: tuple[Draw, Draw], repeats: int, sizes: tuple[int, int]
) -> list[Numbers]:
    """Metrics of two independent groups of runs."""
    return [draw(rng.random((repeats, n))) for draw, n in zip(draws, sizes, strict=True)]


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _discrete(logs: list[float], step: float) -> Draw:
    reached = np.cumsum(np.exp(logs))
    return lambda u: step * np.searchsorted(reached, u * reached[-1]).astype(float)
