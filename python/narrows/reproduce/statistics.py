"""Intervals over repeated runs.

They use Student's t, with or without bounds, the normal approximation, and chi-square for spread.

Source: chi-square quantiles by bisection on the regularised incomplete gamma function (Abramowitz
and Stegun, 6.5.29). The tests compare them with printed tables.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from narrows.results.intervals import bounded, half_of, within
from narrows.results.student import bisect, t_half_width, t_quantile


@dataclass(frozen=True)
class Interval:
    """A mean and the interval about it, in the unit of its values."""

    mean: float
    low: float
    high: float
    count: int
    """Number of values (runs) behind it."""

    @property
    def half_width(self) -> float:
        """Half of the interval's width; infinite when there are too few values for one."""
        return (self.high - self.low) / 2.0

    def inside(self, low: float, high: float) -> bool:
        """Whether the whole interval lies in `low` to `high`, the ends included."""
        return low <= self.low and self.high <= high


def plus_minus(interval: Interval | None, digits: int = 2) -> str:
    """A mean and half of its interval's width; for one run the mean alone, for none a dash.

    Examples:
        >>> plus_minus(Interval(1.0, 0.75, 1.25, 5)), plus_minus(None)
        ('1.00 ± 0.25', '-')
    """
    if interval is None:
        return "-"
    if interval.count < 2:
        return f"{interval.mean:.{digits}f}"
    return f"{interval.mean:.{digits}f} ± {interval.half_width:.{digits}f}"


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean of `values` with Student's t interval.

    A single value says nothing about its spread, so its interval is infinite.

    Raises:
        ValueError: `values` is empty or holds a value that is not finite.
    """
    _check(values)
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, -math.inf, math.inf, len(values))
    half = t_half_width(values, confidence)
    return Interval(mean, mean - half, mean + half, len(values))


def bounded_interval(values: Sequence[float], low: float, high: float) -> Interval:
    """The 95 % interval of a mean between two bounds; without bounds, Student's t interval.

    Source: `narrows.results.intervals.within`. Values that rounding puts out of bounds count as the
    bound.

    Raises:
        ValueError: `values` is empty, or a value is not finite or out of bounds.
    """
    plain = t_interval(values)
    if len(values) < 2:
        return plain
    values = [low if math.isclose(v, low) else high if math.isclose(v, high) else v for v in values]
    return Interval(plain.mean, *within(values, low, high), len(values))


def normal_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean of `values` with the interval that the normal distribution gives.

    For three values it is far too narrow (2.576 where Student's t has 9.925 at 99 %).
    """
    _check(values)
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, -math.inf, math.inf, len(values))
    half = statistics.NormalDist().inv_cdf(0.5 + confidence / 2.0) * standard_error(values)
    return Interval(mean, mean - half, mean + half, len(values))


def deviation_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Standard deviation of `values`, as the interval's `mean`, with its chi-square interval."""
    _check(values)
    if len(values) < 2:
        return Interval(math.nan, 0.0, math.inf, len(values))
    deviation = statistics.stdev(values)
    freedom = len(values) - 1
    tail = (1.0 - confidence) / 2.0
    return Interval(
        deviation,
        deviation * math.sqrt(freedom / chi_square_quantile(1.0 - tail, freedom)),
        deviation * math.sqrt(freedom / chi_square_quantile(tail, freedom)),
        len(values),
    )


def scaled_interval(
    interval: Interval,
    count: int,
    statistic: Literal["mean", "deviation"],
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """The 95 % interval that `count` values of the same mean and deviation would have."""
    if statistic == "deviation":
        freedom = count - 1
        return Interval(
            interval.mean,
            interval.mean * math.sqrt(freedom / chi_square_quantile(0.975, freedom)),
            interval.mean * math.sqrt(freedom / chi_square_quantile(0.025, freedom)),
            count,
        )
    # A half-width is t times the deviation over the root of the count.
    now, then = (t_quantile(0.975, n - 1) / math.sqrt(n) for n in (interval.count, count))
    half = half_of(interval.mean, interval.high, *bounds) * then / now
    return Interval(interval.mean, *bounded(interval.mean, half, *bounds), count)


def standard_error(values: Sequence[float]) -> float:
    """Standard error of the mean of two values or more."""
    return statistics.stdev(values) / math.sqrt(len(values))


def chi_square_quantile(probability: float, freedom: int) -> float:
    """The quantile of chi-square with `freedom` degrees of freedom at `probability`."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    high = float(freedom) + 1.0
    while _gamma_regularised(freedom / 2.0, high / 2.0) < probability:
        high *= 2.0
    return bisect(lambda x: _gamma_regularised(freedom / 2.0, x / 2.0) - probability, 0.0, high)


def _check(values: Sequence[float]) -> None:
    if not values:
        raise ValueError("no values, so no mean")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a value is not finite")


def _gamma_regularised(a: float, x: float) -> float:
    if x <= 0.0:
        return 0.0
    term = 1.0 / a
    total = term
    n = a
    while abs(term) > 1e-16 * abs(total):
        n += 1.0
        term *= x / n
        total += term
    return min(1.0, total * math.exp(a * math.log(x) - x - math.lgamma(a)))
