"""Metrics from columns. Sums are exactly rounded, so the order of summation does not matter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]


def floats(series: pl.Series) -> Floats:
    """The values of a column, without nulls."""
    # Without nulls, this needs no query.
    without = series.drop_nulls() if series.null_count() else series
    return without.cast(pl.Float64).to_numpy()


def row_floats(table: pl.DataFrame, column: str) -> Floats:
    """The values of a column, one for each row; NaN for null."""
    return table.get_column(column).cast(pl.Float64).to_numpy()


def mean(values: Floats) -> float | None:
    """The mean; None without values."""
    return math.fsum(values) / len(values) if len(values) else None


def percentile(values: Sequence[float] | Floats, share: float) -> float | None:
    """The linearly interpolated quantile of ``values`` (Hyndman and Fan's type 7), if any."""
    if len(values) == 0:
        return None
    # What np.quantile does for one share, to the last bit, in a tenth of its time.
    place = share * (len(values) - 1)
    low = math.floor(place)
    part, high = place - low, min(low + 1, len(values) - 1)
    ranked = np.partition(np.asarray(values, dtype=np.float64), (low, high))
    below, above = float(ranked[low]), float(ranked[high])
    if part < 0.5:
        return below + (above - below) * part
    return above - (above - below) * (1 - part)


def reached(values: Sequence[float] | Floats, percent: int) -> float | None:
    """The smallest of ``values`` within which at least ``percent`` of them lie, if there are any.

    This is the value of the nearest rank (Hyndman and Fan's type 1). It is always one of the
    values, even if they have a gap into which an interpolated percentile may fall.

    Examples:
        >>> reached([10.0, 20.0, 5000.0, 30.0], 75), reached([10.0, 20.0, 5000.0, 30.0], 76)
        (30.0, 5000.0)
    """
    if len(values) == 0:
        return None
    # This counts in whole numbers, because 0.95 of a count is not exact.
    rank = max(1, -(-percent * len(values) // 100))
    return float(np.partition(np.asarray(values, dtype=np.float64), rank - 1)[rank - 1])


def total(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def ratio(part: float, whole: float) -> float | None:
    """A part as a share of a whole; None if the whole is zero."""
    return part / whole if whole > 0 else None


def percent(part: float | None, whole: float | None) -> float | None:
    """A part in percent of a whole; None if the whole is zero or either is unknown."""
    return None if part is None or not whole else 100.0 * part / whole
