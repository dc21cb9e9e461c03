"""Confidence intervals for counts and for means over seeds.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927;
R. G. Newcombe, "Interval estimation for the difference between independent proportions", 1998,
method 10, and its rule for other parameters: G. Y. Zou, A. Donner, "Construction of confidence
limits about effect measures: a general approach", 2008 (square-and-add, for means that are
independent or not); B. L. Welch, "The generalization of Student's problem", 1947; the
transformations of
`within`: A. W. van der Vaart, "Asymptotic Statistics", 1998, chapter 3 (the delta method);
`prediction`: G. J. Hahn, W. Q. Meeker, "Statistical Intervals", 1991, chapter 4.

statsmodels has some of them and depends on SciPy; `student.py` says why narrows does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance
from typing import NamedTuple

from narrows.results.student import t_half_width, t_quantile

__all__ = [
    "Apart",
    "bounded",
    "half_of",
    "newcombe",
    "paired",
    "prediction",
    "welch",
    "wilson",
    "within",
]


class Apart(NamedTuple):
    """The interval of a second mean less a first."""

    low: float
    high: float
    firsts: tuple[float, float]
    """The first mean at either end. A figure that is never negative cannot fall by more than that,
    though perhaps by more than the observed first mean."""


def wilson(successes: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion, as shares from 0 to 1.

    It holds for small counts and near 0 and 1, where the usual normal interval fails. It assumes
    independent trials.

    Raises:
        ValueError: ``total`` is not above zero or ``successes`` is not within it.

    Examples:
        >>> low, high = wilson(19474, 20000)
        >>> round(low, 4), round(high, 4)
        (0.9714, 0.9758)
    """
    if total <= 0 or not 0 <= successes <= total:
        raise ValueError(f"no proportion: {successes} of {total}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    share = successes / total
    scale = 1.0 + z * z / total
    centre = (share + z * z / (2.0 * total)) / scale
    half = z / scale * math.sqrt(share * (1.0 - share) / total + z * z / (4.0 * total * total))
    # Rounding must not put the interval's ends on the wrong side of the observed share.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def newcombe(
    successes: tuple[int, int], totals: tuple[int, int], confidence: float = 0.95
) -> Apart:
    """Newcombe's hybrid score interval of the second proportion minus the first, as shares.

    Raises:
        ValueError: A total is not above zero or its successes are not within it.
    """
    first, second = (
        _Mean(count / total, *wilson(count, total, confidence))
        for count, total in zip(successes, totals, strict=True)
    )
    return _apart(first, second)


def within(
    values: Sequence[float], low: float = 0.0, high: float = math.inf, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of the mean of values between two bounds; the interval lies between them, too.

    It is Student's t interval on another scale; the delta method converts the standard error.
    Between two bounds, the scale is the artanh of the position between them (for shares, half of
    their logit), on which the bounds are infinitely far away. Above one bound, it is the square
    root of the distance, as for counts. Far from the bounds, this is Student's interval. Close to a
    bound, it reaches less far towards the bound, and further away from it.

    Above one bound, the lower end is the bound itself if half of Student's width is at least twice
    the distance: the interval then contains the root of zero, and no distance has a smaller root. A
    logarithm would have no such end, but its upper end grows exponentially: with two values it may
    be 300,000 times the mean.

    Args:
        values: Two or more.
        low: The least possible value; minus infinity means no bound: Student's interval.
        high: The largest possible value, or infinity.
        confidence: Between 0 and 1.

    Raises:
        ValueError: There are fewer than two values, or one is out of bounds.

    Examples:
        >>> low, high = within([97.0, 99.0, 99.5], 0.0, 100.0)
        >>> round(low, 1), round(high, 1)
        (87.7, 99.8)
    """
    if not all(low <= value <= high for value in values):
        raise ValueError(f"a value is not within {low} and {high}")
    return bounded(fmean(values), t_half_width(values, confidence), low, high)


def bounded(mean: float, half: float, low: float, high: float) -> tuple[float, float]:
    """The interval of `within`, from a mean and half the width of Student's interval.

    Examples:
        >>> bounded(99.0, 2.0, -math.inf, math.inf)
        (97.0, 101.0)
        >>> least, most = bounded(99.0, 2.0, 0.0, 100.0)
        >>> round(least, 1), round(most, 1)
        (92.9, 99.9)
    """
    if half == 0.0 or mean in (low, high):
        return mean, mean
    if math.isinf(low):
        return mean - half, mean + half
    if math.isinf(high):
        root = math.sqrt(mean - low)
        half /= 2.0 * root
        return low + max(0.0, root - half) ** 2, low + (root + half) ** 2
    above, below = mean - low, high - mean
    centre = 0.5 * math.log(above / below)
    # The derivative of the artanh of the position.
    half *= (high - low) / (2.0 * above * below)
    ends = (math.tanh(centre - half), math.tanh(centre + half))
    least, most = (low + (high - low) * (1.0 + end) / 2.0 for end in ends)
    # Rounding must not put an end on the wrong side of the mean.
    return min(mean, least), max(mean, most)


def half_of(mean: float, most: float, low: float, high: float) -> float:
    """Half the width of Student's interval for which `bounded` gives one that ends at `most`.

    Examples:
        >>> _, most = bounded(3.0, 4.0, 0.0, math.inf)
        >>> round(half_of(3.0, most, 0.0, math.inf), 6)
        4.0
    """
    if most == mean or math.isinf(low):
        return most - mean
    if math.isinf(high):
        return 2.0 * math.sqrt(mean - low) * (math.sqrt(most - low) - math.sqrt(mean - low))
    above, below = mean - low, high - mean
    further = 0.5 * (math.log((most - low) / (high - most)) - math.log(above / below))
    return further * 2.0 * above * below / (high - low)


def paired(
    first: Sequence[float],
    second: Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    confidence: float = 0.95,
) -> Apart:
    """Interval of the mean difference of each second value from its first.

    Without bounds, it is Student's t interval of the differences. What both values owe to a common
    seed cancels. The interval is then narrower than `welch`'s; if they owe nothing to it, the
    interval is a little wider. Between bounds, the square-and-add rule combines the two means' own
    intervals, and pairing narrows the result as much as it narrows Student's interval.

    Args:
        first: Two or more.
        second: As many.
        low: The least possible value of both, or minus infinity.
        high: The largest possible value of both, or infinity.
        confidence: Between 0 and 1.

    Raises:
        ValueError: There are fewer than two pairs, or the samples are of different lengths.

    Examples:
        >>> low, high, _ = paired([1.0, 2.0, 3.0], [2.0, 3.1, 3.9])
        >>> round(low, 2), round(high, 2)
        (0.75, 1.25)
        >>> low, high, _ = paired([99.0, 98.0, 97.0], [1.0, 3.0, 0.0], 0.0, 100.0)
        >>> round(low, 1), round(high, 1)
        (-98.3, -81.0)
    """
    differences = [after - before for before, after in zip(first, second, strict=True)]
    means = [
        _Mean.between(fmean(sample), t_half_width(sample, confidence), low, high)
        for sample in (first, second)
    ]
    return _apart(means[0], means[1], t_half_width(differences, confidence))


def prediction(
    first: Sequence[float],
    second: Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    confidence: float = 0.95,
) -> Apart:
    """Interval of the second mean minus the first, where one of them is a single value.

    This assumes that the single value varies as much as the others do. It compares the single value
    with Student's interval (between bounds, that of `within`) for one more of the others. The
    result excludes zero if one more of the others would hardly have the single value.

    Args:
        first: One value, or two or more.
        second: Two or more, or one value.
        low: The least possible value of both, or minus infinity.
        high: The largest possible value of both, or infinity.
        confidence: Between 0 and 1.

    Raises:
        ValueError: Neither has exactly one value, or the other has fewer than two.

    Examples:
        >>> low, high, _ = prediction([2.5], [1.0, 2.0, 3.0])
        >>> round(low, 3), round(high, 3)
        (-5.468, 4.468)
    """
    one, several = sorted((first, second), key=len)
    if len(one) != 1:
        raise ValueError("a prediction is of a single value")
    # The half width of a mean has a variance of 1/n, and this one has 1 + 1/n.
    half = t_half_width(several, confidence) * math.sqrt(len(several) + 1.0)
    least, most = bounded(fmean(several), half, low, high)
    if several is second:
        return Apart(least - one[0], most - one[0], (one[0], one[0]))
    return Apart(one[0] - most, one[0] - least, (most, least))


def welch(
    first: Sequence[float],
    second: Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    confidence: float = 0.95,
) -> Apart:
    """Welch's interval of the second mean minus the first; variances may differ.

    Welch and Satterthwaite's degrees of freedom are rounded down, which errs towards a wider
    interval. Between bounds, each mean has its own interval with these degrees of freedom, as in
    `within`, and the square-and-add rule combines the two.

    Args:
        first: Two or more.
        second: Two or more.
        low: The least possible value of both, or minus infinity.
        high: The largest possible value of both, or infinity.
        confidence: Between 0 and 1.

    Raises:
        ValueError: A sample has fewer than two values.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError("an interval of a mean needs two values or more")
    parts = [variance(sample) / len(sample) for sample in (first, second)]
    total = math.fsum(parts)
    freedom = 1
    if total > 0.0:
        spread = math.fsum(
            part * part / (len(sample) - 1)
            for part, sample in zip(parts, (first, second), strict=True)
        )
        freedom = max(1, math.floor(total * total / spread * (1.0 + 1e-12)))
    quantile = t_quantile(0.5 + confidence / 2.0, freedom)
    means = [
        _Mean.between(fmean(sample), quantile * math.sqrt(part), low, high)
        for sample, part in zip((first, second), parts, strict=True)
    ]
    return _apart(means[0], means[1])


@dataclass(frozen=True)
class _Mean:
    """A mean or a proportion with its own interval."""

    value: float
    low: float
    high: float
    half: float = 0.0
    """Half the width of Student's interval."""

    @classmethod
    def between(cls, value: float, half: float, low: float, high: float) -> _Mean:
        """Makes a mean with the interval of `bounded`."""
        return cls(value, *bounded(value, half, low, high), half)


def _apart(first: _Mean, second: _Mean, half: float | None = None) -> Apart:
    """The square-and-add rule: the difference of two means from their own intervals.

    `half` is half the width of Student's interval of paired differences; None if nothing is paired.
    """
    narrowing, against = 1.0, 0.0
    if half is not None and first.half + second.half > 0.0:
        plain = math.hypot(first.half, second.half)
        narrowing = min(1.0, half / plain)
        if half > plain and first.half * second.half > 0.0:
            # This is minus the correlation of the pairs.
            against = (half * half - plain * plain) / (2.0 * first.half * second.half)

    def moved(one: float, other: float) -> tuple[float, float]:
        """How far the means move together, from how far each moves alone."""
        cross = against * one * other
        reach = math.sqrt(one * one + other * other + 2.0 * cross)
        if reach == 0.0:
            return 0.0, 0.0
        return narrowing * (one * one + cross) / reach, narrowing * (other * other + cross) / reach

    difference = second.value - first.value
    rise, fall = moved(first.high - first.value, second.value - second.low)
    low, at_low = difference - rise - fall, first.value + rise
    fall, rise = moved(first.value - first.low, second.high - second.value)
    return Apart(low, difference + fall + rise, (at_low, first.value - fall))
