"""Means over several cells, and differences between two groups of them, with intervals over seeds.

Each seed gives one value: the mean over the cells. Cells of two groups are paired by everything
that they have in common, and seeds are paired too, as equal seeds draw the same starts in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import polars as pl

from narrows.reproduce.statistics import Interval, t_interval

__all__ = ["FACTORS", "Where", "difference", "mean", "select"]

Where = Mapping[str, str | Sequence[str]]
"""Names of levels by factor."""

FACTORS = ("transport", "queue", "load", "path", "round_trip", "reply", "neighbours")
"""The columns that name a cell."""


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
    return _over_seeds(select(runs, where).select(*FACTORS, "seed", value=figure))


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
    first = select(both, one).select(*common, "seed", first=figure)
    second = select(both, other).select(*common, "seed", second=figure)
    pairs = first.join(second, on=[*common, "seed"], how="inner")
    return _over_seeds(pairs.select(*common, "seed", value=pl.col("first") - pl.col("second")))


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
