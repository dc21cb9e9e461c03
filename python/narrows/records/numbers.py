"""Figures from columns: sums are exactly rounded, so that no order of summation shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Floats", "floats", "mean", "percent", "percentile", "ratio", "total"]

Floats = npt.NDArray[np.float64]


def floats(series: pl.Series) -> Floats:
    """The values of a column that has some."""
    return series.drop_nulls().cast(pl.Float64).to_numpy()


def mean(values: Floats) -> float | None:
    """The mean, if there are values."""
    return math.fsum(values) / len(values) if len(values) else None


def percentile(values: Sequence[float] | Floats, share: float) -> float | None:
    """The quantile of ``values``, interpolated linearly (Hyndman and Fan's type 7), if any."""
    if len(values) == 0:
        return None
    return float(np.quantile(np.asarray(values, dtype=np.float64), share))


def total(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def ratio(part: float, whole: float) -> float | None:
    """A part of a whole that may be nothing."""
    return part / whole if whole > 0 else None


def percent(part: float | None, whole: float | None) -> float | None:
    """The same in percent, where both are known."""
    return None if part is None or not whole else 100.0 * part / whole
