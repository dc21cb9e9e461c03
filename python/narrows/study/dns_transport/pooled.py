"""Means over several cells, and differences between two groups of them, with intervals over seeds.

Each seed gives one value: the mean over the cells. Two cells of different groups form a pair if
they agree in all other factors. Seeds are paired too, because equal seeds draw the same start times
in both.

Intervals stay within the possible range (`within`): percentages between 0 and 100, their
differences between -100 and 100, other metrics above 0. If all seeds agree, as they do at 100 %,
their interval has no width. So the interval of a share of queries is at least as wide as the number
of queries alone makes it: Wilson's for a share, Newcombe's for a difference of two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.results.intervals import newcombe, wilson, within

Where = Mapping[str, str | Sequence[str]]
"""Names of levels by factor."""

FACTORS = ("place", "transport", "queue", "load", "path", "round_trip", "reply", "neighbours")
"""The columns that name a cell."""

SHARES = ("without_retry_percent", "within_1s_percent", "failed_percent")
"""The metrics that are shares of the queries."""

_ANYTHING = (-math.inf, math.inf)


def select(runs: pl.DataFrame, where: Where) -> pl.DataFrame:
    """The runs of some cells."""
    for factor, wanted in where.items():
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        runs = runs.filter(pl.col(factor).is_in(names))
    return runs


def mean(runs: pl.DataFrame, metric: str, where: Where) -> Interval | None:
    """Mean of a metric over cells, with its 95 % interval over seeds.

    It is None if there is no such run, or if a run lacks the metric. A seed that lacks a cell does
    not count.
    """
    if metric not in runs.columns:
        return None
    there = select(runs, where)
    means = _means(there.select(*FACTORS, "seed", value=metric))
    return over_seeds(metric, means, int(there["queries"].sum())) if means else None


def over_seeds(metric: str, values: Sequence[float], queries: int) -> Interval:
    """Mean of a metric's values, one or more for each seed, with its 95 % interval.

    Args:
        metric: The metric's name, which determines the possible range.
        values: At least one value.
        queries: The number of queries behind all values.
    """
    bounds = (0.0, 100.0) if metric.endswith("_percent") else (0.0, math.inf)
    found = _interval(values, bounds)
    if metric not in SHARES or queries == 0 or not math.isfinite(found.low):
        return found
    low, high = wilson(_of(found.mean, queries), queries)
    return replace(found, low=min(found.low, 100.0 * low), high=max(found.high, 100.0 * high))


def difference(
    runs: pl.DataFrame, metric: str, one: Where, other: Where, where: Where | None = None
) -> Interval | None:
    """Mean of a metric in `one` minus that in `other`, cell by cell and seed by seed.

    Args:
        runs: A row for each run.
        metric: The metric's name.
        one: The levels of the first group.
        other: The levels of the second group, for the same factors.
        where: What both have in common.
    """
    if metric not in runs.columns:
        return None
    common = [factor for factor in FACTORS if factor not in one]
    both = select(runs, where or {})
    first = select(both, one).select(*common, "seed", "queries", first=metric)
    second = select(both, other).select(*common, "seed", others="queries", second=metric)
    pairs = _whole(first.join(second, on=[*common, "seed"], how="inner"))
    means = _means(pairs.select(*common, "seed", value=pl.col("first") - pl.col("second")))
    if not means:
        return None
    found = _interval(means, (-100.0, 100.0) if metric.endswith("_percent") else _ANYTHING)
    if metric not in SHARES or not math.isfinite(found.low):
        return found
    totals = int(pairs["others"].sum()), int(pairs["queries"].sum())
    if not all(totals):
        return found
    counts = [
        _of(pairs[name].mean(), total)
        for name, total in zip(("second", "first"), totals, strict=True)
    ]
    low, high, _ = newcombe((counts[0], counts[1]), totals)
    return replace(found, low=min(found.low, 100.0 * low), high=max(found.high, 100.0 * high))


def _interval(values: Sequence[float], bounds: tuple[float, float]) -> Interval:
    if len(values) < 2:
        return Interval(fmean(values), -math.inf, math.inf, len(values))
    low, high = bounds
    # Rounding can put the quotient of two sums just outside the bounds.
    inside = [min(high, max(low, value)) for value in values]
    return Interval(fmean(values), *within(inside, low, high), len(values))


def _of(percent: object, total: int) -> int:
    share = percent if isinstance(percent, float) else 0.0
    return min(total, max(0, round(share / 100.0 * total)))


def _whole(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the seeds that have all cells. In a partial study, some seeds lack cells."""
    cells = pl.len().over("seed")
    return rows.filter(cells == cells.max())


def _means(rows: pl.DataFrame) -> list[float]:
    """For each seed that has all cells, the mean over them; empty if a value is missing."""
    if rows.is_empty() or rows.get_column("value").null_count():
        return []
    values: dict[int, list[float]] = {}
    for seed, value in rows.select("seed", "value").iter_rows():
        values.setdefault(seed, []).append(value)
    most = max(map(len, values.values()))
    # fsum rounds exactly, so the order of the rows does not affect the result.
    return [fmean(of) for _, of in sorted(values.items()) if len(of) == most]
