"""Means over several cells, and differences between two groups of them, with intervals over seeds.

Each seed gives one value: the mean over the cells. Cells of two groups are paired by everything
that they have in common, and seeds are paired too, as equal seeds draw the same starts in both.

Seeds that agree, as all do at 100 %, would have an interval of no width. So intervals of shares of
queries are at least as wide as those that the number of queries alone gives: Wilson's for a share,
Newcombe's for a difference of two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import polars as pl

from narrows.reproduce.statistics import Interval, t_interval
from narrows.results.intervals import newcombe, wilson

__all__ = ["FACTORS", "SHARES", "Where", "difference", "mean", "over_queries", "select"]

Where = Mapping[str, str | Sequence[str]]
"""Names of levels by factor."""

FACTORS = ("transport", "queue", "load", "path", "round_trip", "reply", "neighbours")
"""The columns that name a cell."""

SHARES = ("without_retry_percent", "within_1s_percent", "failed_percent")
"""The figures that are shares of the queries."""


def select(runs: pl.DataFrame, where: Where) -> pl.DataFrame:
    """The runs of some cells."""
    for factor, wanted in where.items():
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        runs = runs.filter(pl.col(factor).is_in(names))
    return runs


def mean(runs: pl.DataFrame, figure: str, where: Where) -> Interval | None:
    """Mean of a figure over cells, with its 95 % interval over seeds.

    None: there is no such run, or one does not give the figure. Seeds that lack a cell do not
    count.
    """
    there = select(runs, where)
    found = _over_seeds(there.select(*FACTORS, "seed", value=figure))
    if found is None or figure not in SHARES:
        return found
    return over_queries(found, _queries(there))


def over_queries(interval: Interval, queries: int) -> Interval:
    """An interval of a share in percent, widened to what so many queries give; none stays none."""
    if queries == 0 or not math.isfinite(interval.low):
        return interval
    low, high = wilson(_of(interval.mean, queries), queries)
    return replace(
        interval, low=min(interval.low, 100.0 * low), high=max(interval.high, 100.0 * high)
    )


def difference(
    runs: pl.DataFrame, figure: str, one: Where, other: Where, where: Where | None = None
) -> Interval | None:
    """Mean of a figure in `one` less that in `other`, cell by cell and seed by seed.

    Args:
        runs: A row a run.
        figure: Which figure.
        one: The factors in which the first group differs.
        other: The same of the second group, with the same factors.
        where: What both have in common.
    """
    common = [factor for factor in FACTORS if factor not in one]
    both = select(runs, where or {})
    first = select(both, one).select(*common, "seed", "queries", first=figure)
    second = select(both, other).select(*common, "seed", others="queries", second=figure)
    pairs = first.join(second, on=[*common, "seed"], how="inner")
    found = _over_seeds(pairs.select(*common, "seed", value=pl.col("first") - pl.col("second")))
    if found is None or figure not in SHARES or not math.isfinite(found.low):
        return found
    totals = int(pairs["others"].sum()), int(pairs["queries"].sum())
    if not all(totals):
        return found
    counts = [
        _of(pairs[name].mean(), total)
        for name, total in zip(("second", "first"), totals, strict=True)
    ]
    low, high = newcombe((counts[0], counts[1]), totals)
    return replace(found, low=min(found.low, 100.0 * low), high=max(found.high, 100.0 * high))


def _queries(runs: pl.DataFrame) -> int:
    return int(runs["queries"].sum())


def _of(percent: object, total: int) -> int:
    share = percent if isinstance(percent, float) else 0.0
    return min(total, max(0, round(share / 100.0 * total)))


def _over_seeds(rows: pl.DataFrame) -> Interval | None:
    if rows.is_empty() or rows.get_column("value").null_count():
        return None
    values: dict[int, list[float]] = {}
    for seed, value in rows.select("seed", "value").iter_rows():
        values.setdefault(seed, []).append(value)
    most = max(map(len, values.values()))
    # Exactly rounded sums: no order of rows shows in the result.
    means = [fmean(of) for _, of in sorted(values.items()) if len(of) == most]
    return t_interval(means)
