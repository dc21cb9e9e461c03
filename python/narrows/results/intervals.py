"""Confidence intervals for counts and for means over seeds.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927;
R. G. Newcombe, "Interval estimation for the difference between independent proportions", 1998,
method 10; B. L. Welch, "The generalization of Student's problem", 1947; the transformations of
`within`: A. W. van der Vaart, "Asymptotic Statistics", 1998, chapter 3 (the delta method);
`prediction`: G. J. Hahn, W. Q. Meeker, "Statistical Intervals", 1991, chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, variance

from narrows.results.student import t_half_width, t_quantile

__all__ = ["bounded", "half_of", "newcombe", "paired", "prediction", "welch", "wilson", "within"]


def wilson(successes: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion, as shares from 0 to 1.

    It holds for small counts and near 0 and 1, where the usual normal interval fails; it takes the
    trials as independent.

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
    # Rounding must not put the interval's ends on the wrong side of what was seen.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def newcombe(
    successes: tuple[int, int], totals: tuple[int, int], confidence: float = 0.95
) -> tuple[float, float]:
    """Newcombe's hybrid score interval of the second proportion less the first, as shares.

    Raises:
        ValueError: A total is not above zero or its successes are not within it.
    """
    (low_0, high_0), (low_1, high_1) = (
        wilson(count, total, confidence) for count, total in zip(successes, totals, strict=True)
    )
    share_0, share_1 = (n / total for n, total in zip(successes, totals, strict=True))
    difference = share_1 - share_0
    low = difference - math.hypot(share_1 - low_1, high_0 - share_0)
    high = difference + math.hypot(high_1 - share_1, share_0 - low_0)
    return low, high


def within(
    values: Sequence[float], low: float = 0.0, high: float = math.inf, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of the mean of values that lie between two bounds; it lies between them, too.

    Student's t on another scale, to which the delta method carries the standard error. Between two
    bounds that is the artanh of the place between them (for shares half of their logit), on which
    the bounds are infinitely far. Above one bound it is the square root of the distance, as for
    counts; no root is below zero. Far from the bounds this is Student's interval; close to one it
    reaches less far towards it, and further away from it.

    Args:
        values: Two or more.
        low: The least possible value; minus infinity for none, which gives Student's interval.
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
    # The artanh of the place has this derivative.
    half *= (high - low) / (2.0 * above * below)
    ends = (math.tanh(centre - half), math.tanh(centre + half))
    least, most = (low + (high - low) * (1.0 + end) / 2.0 for end in ends)
    # Rounding must not put an end on the wrong side of the mean.
    return min(mean, least), max(mean, most)


def half_of(mean: float, most: float, low: float, high: float) -> float:
    """Half the width of Student's interval from which `bounded` made one that ends at `most`.

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
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Student's t interval of the mean of what each second value is above its first.

    What both have from a common seed cancels, where there is such: the interval is then narrower
    than `welch`'s, and where there is not, a little wider.

    Raises:
        ValueError: There are fewer than two pairs, or the samples are of different lengths.

    Examples:
        >>> low, high = paired([1.0, 2.0, 3.0], [2.0, 3.1, 3.9])
        >>> round(low, 2), round(high, 2)
        (0.75, 1.25)
    """
    differences = [after - before for before, after in zip(first, second, strict=True)]
    half = t_half_width(differences, confidence)
    mean = fmean(differences)
    return mean - half, mean + half


def prediction(
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Student's interval of the second mean less the first, where one of them is a single value.

    This assumes that the single value varies as much as the others do. The interval excludes zero
    if one more of the others would hardly have the single value.

    Raises:
        ValueError: Neither has exactly one value, or the other has fewer than two.

    Examples:
        >>> low, high = prediction([2.5], [1.0, 2.0, 3.0])
        >>> round(low, 3), round(high, 3)
        (-5.468, 4.468)
    """
    several = max(first, second, key=len)
    if min(len(first), len(second)) != 1:
        raise ValueError("a prediction is of a single value")
    # A mean's half width has a variance of 1/n, this one of 1 + 1/n.
    half = t_half_width(several, confidence) * math.sqrt(len(several) + 1.0)
    difference = fmean(second) - fmean(first)
    return difference - half, difference + half


def welch(
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Welch's interval of the second mean less the first; variances may differ.

    Welch and Satterthwaite's degrees of freedom are rounded down, which errs towards a wider
    interval.

    Raises:
        ValueError: A sample has fewer than two values.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError("an interval of a mean needs two values or more")
    difference = fmean(second) - fmean(first)
    parts = [variance(sample) / len(sample) for sample in (first, second)]
    total = math.fsum(parts)
    if total == 0.0:
        return difference, difference
    spread = math.fsum(
        part * part / (len(sample) - 1) for part, sample in zip(parts, (first, second), strict=True)
    )
    freedom = max(1, math.floor(total * total / spread * (1.0 + 1e-12)))
    half = t_quantile(0.5 + confidence / 2.0, freedom) * math.sqrt(total)
    return difference - half, difference + half
