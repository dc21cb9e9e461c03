"""How often chance looks like a difference, and how many differences are found.

Every place that calls a difference real judges groups of simulated runs here: `compare` (which
compares sweeps, too), the intervals of `sweep`, the verdicts of `reproduce` and the study. A rate
is measured again, with more repeats, if it seems to be above the bound: of hundreds of right rates,
some seem too high by chance. COVERAGE=10 makes all repeats ten times as many.

Not covered: a median or percentile that is 20 ms or 1,020 ms with equal chances, in pairs of which
mostly one is slow. Three such pairs agree in their sign too often, whatever the test.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from coverage_grid import Draw, Numbers, count, drawn, pairs, share, slow

from narrows.reproduce.claims import Claim, Verdict, Worded
from narrows.results.compare_differences import Side, difference
from narrows.results.compare_rows import Group, Sample
from narrows.results.intervals import of_seeds
from narrows.study.dns_transport import pooled

pytestmark = pytest.mark.slow

MOST = 0.07
"""The largest share of equal pairs that may be called different."""
FOUND = 0.8
"""The least share of the differences that an exact test finds."""
FEW, MANY = (int(os.environ.get("COVERAGE", "1")) * n for n in (100, 600))

METRICS: dict[str, tuple[Draw, tuple[float, float]]] = {
    **{
        f"{100 * rate:g} % of {queries}, correlation {within}": (
            share(rate, queries, within),
            (0.0, 100.0),
        )
        for rate, queries, within in (
            (0.0, 1000, 0.0),
            (0.001, 1000, 0.0),
            (0.01, 30, 0.0),
            (0.01, 1000, 0.3),
            (0.5, 1000, 0.02),
            (0.99, 1000, 0.02),
            (0.999, 1000, 0.0),
            (1.0, 1000, 0.0),
        )
    },
    **{f"counts, mean {mean:g}": (count(mean), (0.0, np.inf)) for mean in (0.1, 0.5)},
    **{
        f"{100 * rate:g} % slow, noise {noise:g}": (slow(rate, noise), (0.0, np.inf))
        for rate, noise in ((0.02, 0.1), (0.1, 10.0), (0.3, 0.1), (0.3, 0.0))
    },
}

Judge = Callable[[Numbers, Numbers, tuple[float, float]], bool]


def group(values: Numbers, first_seed: int) -> Side:
    runs = tuple(
        cast(Sample, SimpleNamespace(seed=first_seed + n, summary={"metric": value, "seed": n}))
        for n, value in enumerate(values)
    )
    return Side(Group("one", runs), values.tolist())


def compared(first: Numbers, second: Numbers, bounds: tuple[float, float]) -> bool:
    found = difference("metric", bounds, group(first, 0), group(second, 100))
    return found is not None and found.is_significant


def compared_by_seed(first: Numbers, second: Numbers, bounds: tuple[float, float]) -> bool:
    found = difference("metric", bounds, group(first, 0), group(second, 0))
    return found is not None and found.is_significant


def apart(first: Numbers, second: Numbers, bounds: tuple[float, float]) -> bool:
    """Whether two combinations of a sweep have intervals that do not touch."""
    one, other = (of_seeds(values.tolist(), *bounds) for values in (first, second))
    return one is not None and other is not None and (one[1] < other[0] or other[1] < one[0])


def claim(relation: Any) -> Claim:
    bound = 1e-9 if relation == "at least" else -1e-9
    worded = Worded("one is above the other", relation, bound)
    return Claim("X1", "one less other", "", (), lambda runs: 0.0, worded=worded)


CLAIMS = [claim("at least"), claim("at most")]


def claimed(first: Numbers, second: Numbers, _: tuple[float, float]) -> bool:
    """Whether a claim about the difference of two cells, seed by seed, holds."""
    interval = CLAIMS[0].interval((first - second).tolist())
    return any(each.test(interval) is Verdict.HOLDS for each in CLAIMS)


def studied(first: Numbers, second: Numbers, bounds: tuple[float, float]) -> bool:
    """Whether the study's interval of two cells excludes zero."""
    metric = "within_1s_percent" if bounds[1] == 100.0 else "response_p50_ms"
    rows = [
        {**dict.fromkeys(pooled.FACTORS, "x"), "transport": name, "seed": seed, "queries": 1000}
        | {metric: value}
        for name, values in (("a", first), ("b", second))
        for seed, value in enumerate(values.tolist())
    ]
    found = pooled.difference(pl.DataFrame(rows), metric, {"transport": "a"}, {"transport": "b"})
    return found is not None and (found.low > 0.0 or found.high < 0.0)


def rate(judge: Judge, samples: list[Numbers], bounds: tuple[float, float]) -> float:
    return float(np.mean([judge(one, other, bounds) for one, other in zip(*samples, strict=True)]))


def too_high(
    groups: Callable[[np.random.Generator, int], list[Numbers]],
    judge: Judge,
    bounds: tuple[float, float],
    repeats: int = FEW,
) -> float:
    """The rate at which equal groups are called different, if it is above `MOST`; else zero."""
    found = 0.0
    for seed, times in enumerate((repeats, repeats * MANY // FEW)):
        found = rate(judge, groups(np.random.default_rng(seed), times), bounds)
        if found <= MOST:
            return 0.0
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (5, 5), (12, 12), (3, 20), (20, 5)])
def test_chance_between_groups_of_other_seeds_looks_like_chance(
    metric: str, sizes: tuple[int, int]
) -> None:
    make, bounds = METRICS[metric]

    def groups(rng: np.random.Generator, n: int) -> list[Numbers]:
        return drawn(rng, (make, make), n, sizes)

    assert too_high(groups, compared, bounds) <= MOST
    # The combinations of a sweep have the same number of seeds. Of two seeds it warns.
    if sizes[0] == sizes[1] > 2:
        assert too_high(groups, apart, bounds) <= MOST


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seeds", [2, 3, 5, 12])
@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.9])
def test_chance_between_paired_seeds_looks_like_chance(
    metric: str, seeds: int, correlation: float
) -> None:
    make, bounds = METRICS[metric]

    def groups(rng: np.random.Generator, n: int) -> list[Numbers]:
        return [make(u) for u in pairs(rng, n, seeds, correlation)]

    assert too_high(groups, compared_by_seed, bounds) <= MOST
    assert too_high(groups, claimed, bounds) <= MOST


@pytest.mark.parametrize("metric", list(METRICS)[1::3])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_chance_in_the_study_looks_like_chance(metric: str, correlation: float) -> None:
    make, bounds = METRICS[metric]

    def groups(rng: np.random.Generator, n: int) -> list[Numbers]:
        return [make(u) for u in pairs(rng, n, 5, correlation)]

    assert too_high(groups, studied, bounds, FEW // 4) <= MOST


DIFFERENCES: dict[str, tuple[Draw, Draw]] = {
    **{
        f"{100 * one:g} to {100 * other:g} %": (share(one, 1000, 0.0), share(other, 1000, 0.0))
        for one, other in (
            (0.0, 0.001),
            (0.0, 0.01),
            (0.001, 0.01),
            (0.5, 0.55),
            (0.99, 0.999),
            (1.0, 0.999),
        )
    },
    "50 to 60 %, correlated": (share(0.5, 1000, 0.005), share(0.6, 1000, 0.005)),
    "counts, 0.2 to 3": (count(0.2), count(3.0)),
    "counts, 30 to 40": (count(30.0), count(40.0)),
    "2 to 90 % slow": (slow(0.02, 1.0), slow(0.9, 1.0)),
    "20 to 21 ms": (slow(1e-9, 2.0), lambda u: 1.0 + slow(1e-9, 2.0)(u)),
}


def exact(first: Numbers, second: Numbers, arrangements: Iterator[Numbers]) -> Numbers:
    """Whether a permutation test finds a difference at 5 %.

    An arrangement has 1 for each value that keeps its group's sign, and -1 for others.
    """
    values = np.concatenate([-first / first.shape[1], second / second.shape[1]], axis=1)
    observed = np.abs(values.sum(axis=1)) - 1e-9
    beyond = [np.abs(values @ signs) >= observed for signs in arrangements]
    chance: Numbers = (1.0 + np.sum(beyond, axis=0)) / (1.0 + len(beyond))
    return np.where(chance <= 0.05, 1.0, 0.0)


def regrouped(rng: np.random.Generator, seeds: int) -> Iterator[Numbers]:
    """Runs move to other groups; both groups have as many."""
    own = np.repeat([-1.0, 1.0], seeds)
    for _ in range(300):
        yield own * rng.permutation(own)


def swapped(rng: np.random.Generator, seeds: int) -> Iterator[Numbers]:
    """The runs of some pairs swap their groups."""
    for _ in range(300):
        yield np.tile(rng.choice([-1.0, 1.0], seeds), 2)


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("seeds", [5, 12])
def test_differences_that_a_permutation_test_finds_are_found(name: str, seeds: int) -> None:
    one, other = DIFFERENCES[name]
    bounds = (0.0, 100.0 if "%" in name and "slow" not in name else np.inf)
    rng = np.random.default_rng(seeds)
    first, second = drawn(rng, (one, other), FEW, (seeds, seeds))
    best = exact(first, second, regrouped(rng, seeds)).mean()
    assert rate(compared, [first, second], bounds) >= FOUND * best
    if seeds == 5:
        return  # of 32 ways to swap the runs of five pairs, two are more than 5 %
    uniform = pairs(rng, FEW, seeds, 0.5)
    first, second = (draw(u) for draw, u in zip((one, other), uniform, strict=True))
    best = exact(first, second, swapped(rng, seeds)).mean()
    for judge in (compared_by_seed, claimed):
        assert rate(judge, [first, second], bounds) >= FOUND * best, judge
    best = exact(first[:50], second[:50], swapped(rng, seeds)).mean()
    if best == 1.0:
        assert rate(studied, [first[:50], second[:50]], bounds) >= FOUND


def test_all_or_nothing_is_a_difference_and_one_seed_in_five_is_not() -> None:
    """0 % against 100 % of the queries, in every run: no seed differs from another."""

    def side(shares: list[float], first_seed: int) -> Side:
        runs = tuple(
            cast(
                Sample,
                SimpleNamespace(
                    seed=first_seed + n,
                    summary={"n": n, "dns": {"queries": 100, "answered_at_attempt": [round(of)]}},
                ),
            )
            for n, of in enumerate(shares)
        )
        return Side(Group("one", runs), shares)

    key, bounds = "dns.first_attempt_percent", (0.0, 100.0)
    for first_seed in (0, 100):
        found = difference(key, bounds, side([0.0] * 5, 0), side([100.0] * 5, first_seed))
        assert found is not None and found.low is not None and found.is_significant
        # Newcombe, from Wilson's ends of 0 and of 500 out of 500: 1.96**2 / (500 + 1.96**2).
        assert found.low == pytest.approx(100.0 * (1.0 - 2.0**0.5 * 0.007624), abs=1e-2)
        few = difference(key, bounds, side([0.0] * 4, 0), side([100.0] * 4, first_seed))
        assert few is not None and few.low is None
        one = difference(key, bounds, side([0.0] * 5, 0), side([0.0] * 4 + [100.0], first_seed))
        assert one is not None and not one.is_significant
