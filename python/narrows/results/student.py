"""Student's t.

This file implements it because narrows needs hardly any other statistics: SciPy takes 114 MB, and
would only replace these lines and the chi-square quantiles of `narrows.reproduce.statistics`.

Source: the regularised incomplete beta function (Abramowitz and Stegun, 26.7.1), evaluated as the
continued fraction 26.5.8 by Lentz's method. The tests compare it with printed tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import variance


def t_half_width(values: Sequence[float], confidence: float = 0.95) -> float:
    """Half the width of Student's t interval of a mean.

    Raises:
        ValueError: There are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError("an interval of a mean needs two values or more")
    error = math.sqrt(variance(values) / len(values))
    return t_quantile(0.5 + confidence / 2.0, len(values) - 1) * error


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t with `freedom` degrees of freedom.

    Examples:
        >>> [round(t_quantile(0.975, n), 3) for n in (1, 2, 3, 10, 30)]
        [12.706, 4.303, 3.182, 2.228, 2.042]
    """
    if not 0.0 < probability < 1.0:
        raise ValueError(f"a probability lies between 0 and 1, not {probability}")
    if probability < 0.5:
        return -t_quantile(1.0 - probability, freedom)
    high = 1.0
    while t_cumulative(high, freedom) < probability:
        high *= 2.0
    return bisect(lambda t: t_cumulative(t, freedom) - probability, 0.0, high)


def t_cumulative(t: float, freedom: int) -> float:
    """The probability that Student's t with `freedom` degrees of freedom is below `t`."""
    tail = 0.5 * _beta_regularised(freedom / (freedom + t * t), freedom / 2.0, 0.5)
    return 1.0 - tail if t > 0 else tail


def bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a rising function that is below zero at `low` and above zero at `high`."""
    for _ in range(200):
        middle = (low + high) / 2.0
        if rising(middle) < 0.0:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * max(1.0, abs(high)):
            break
    return (low + high) / 2.0


def _beta_regularised(x: float, a: float, b: float) -> float:
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast on one side of the mean; the other side is its mirror image.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(1.0 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 1000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            step = c * d
            result *= step
        if abs(step - 1.0) < 1e-15:
            break
    return result
