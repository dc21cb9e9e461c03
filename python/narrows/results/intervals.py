"""Confidence intervals for counts and for means over seeds.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927;
R. G. Newcombe, "Interval estimation for the difference between independent proportions", 1998,
method 10; B. L. Welch, "The generalization of Student's problem", 1947; the transformations of
`within`: A. W. van der Vaart, "Asymptotic Statistics", 1998, chapter 3 (the delta method);
`prediction`: G. J. Hahn, W. Q. Meeker, "Statistical Intervals", 1991, chapter 4.
tests/results/test_coverage.py measures how often chance looks like a difference.

statsmodels has some of them and depends on SciPy; `student.py` says why narrows does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, variance
from typing import NamedTuple

from narrows.results.student import t_half_width, t_quantile


class Apart(NamedTuple):
    """The interval of a second mean less a first."""

    low: float
    high: float
    firsts: tuple[float, float]
    """At either end: the first mean, or the nearest to it from which the metric can differ by so
    much. It may fall by more than the observed mean, which the true one may exceed."""


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
    shares = [count / total for count, total in zip(successes, totals, strict=True)]
    ends = [wilson(*of, confidence) for of in zip(successes, totals, strict=True)]
    below, above = (
        [abs(share - end[n]) for share, end in zip(shares, ends, strict=True)] for n in (0, 1)
    )
    difference = shares[1] - shares[0]
    low = difference - math.hypot(above[0], below[1])
    high = difference + math.hypot(below[0], above[1])
    return _possible(low, high, shares[0], 0.0, 1.0)


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


def of_seeds(
    values: Sequence[float], low: float = 0.0, high: float = math.inf
) -> tuple[float, float] | None:
    """The interval of a mean over seeds; None if they do not show how much another would differ.

    They do not if there is one or all give the same, nor if `is_short_of_seeds`. Between two
    bounds, the interval is that of `within`. Above one bound, it is Student's, cut off at the
    bound: on the root's scale, the interval of seeds with a rare, long time often lies wholly above
    that of seeds that happen to lack it.
    """
    if len(set(values)) < 2 or is_short_of_seeds(values, low, high):
        return None
    if not math.isinf(high):
        return within(values, low, high)
    mean, half = fmean(values), t_half_width(values)
    return max(low, mean - half), mean + half


def is_short_of_seeds(values: Sequence[float], low: float, high: float) -> bool:
    """Whether a metric between two bounds has fewer than three values, or most are at one bound.

    Only one or two values would then show the spread: Student's factor is 12.7 with two seeds, and
    a seed at a bound only says that something is rarer than one in so many.
    """
    if math.isinf(low) or math.isinf(high):
        return False
    return len(values) < 3 or 2 * max(values.count(low), values.count(high)) > len(values)


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
    """Student's t interval of the mean difference of each second value from its first.

    What both values owe to a common seed cancels. The interval is then narrower than `welch`'s; if
    they owe nothing to it, the interval is a little wider. The bounds only cut off what no two
    means can differ by. A scale that knows the bounds, as in `within`, is no help here: a sample
    that lies wholly at a bound has no width on it, so chance would look certain.

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
    """
    differences = [after - before for before, after in zip(first, second, strict=True)]
    mean, half = fmean(differences), t_half_width(differences, confidence)
    return _possible(mean - half, mean + half, fmean(first), low, high)


def welch(
    first: Sequence[float],
    second: Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    confidence: float = 0.95,
) -> Apart:
    """Welch's interval of the second mean minus the first; if sizes differ, it may be Student's.

    Welch's variances may differ. His degrees of freedom, rounded down here, err towards a wider
    interval. But if the samples differ in size and the smaller one happens to have no spread, as
    three runs without the rare slow query that some of twenty have, his interval takes the small
    sample's mean for certain: up to a third of equal pairs then look different. So with different
    sizes, the interval is that of Student's t with a pooled variance if that is wider. With equal
    sizes, it never is. The bounds are those of `paired`.

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
    freedoms = [len(sample) - 1 for sample in (first, second)]
    variances = [variance(sample) for sample in (first, second)]
    parts = [var / len(sample) for var, sample in zip(variances, (first, second), strict=True)]
    total = math.fsum(parts)
    tail = 0.5 + confidence / 2.0
    half = 0.0
    if total > 0.0:
        spread = math.fsum(part * part / n for part, n in zip(parts, freedoms, strict=True))
        freedom = max(1, math.floor(total * total / spread * (1.0 + 1e-12)))
        half = t_quantile(tail, freedom) * math.sqrt(total)
    if len(first) != len(second):
        pooled = math.fsum(var * n for var, n in zip(variances, freedoms, strict=True))
        error = math.sqrt(pooled / sum(freedoms) * (1.0 / len(first) + 1.0 / len(second)))
        half = max(half, t_quantile(tail, sum(freedoms)) * error)
    mean = fmean(first)
    difference = fmean(second) - mean
    return _possible(difference - half, difference + half, mean, low, high)


def prediction(
    first: Sequence[float],
    second: Sequence[float],
    low: float = -math.inf,
    high: float = math.inf,
    confidence: float = 0.95,
) -> Apart:
    """Interval of the second mean minus the first, where one of them is a single value.

    This assumes that the single value varies as much as the others do. It compares the single value
    with Student's interval for one more of the others. The result excludes zero if one more of the
    others would hardly have the single value. The bounds are those of `paired`.

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
    mean = fmean(first)
    difference = fmean(second) - mean
    return _possible(difference - half, difference + half, mean, low, high)


def _possible(low: float, high: float, mean: float, least: float, most: float) -> Apart:
    """An interval of differences, without what no two means between `least` and `most` differ by.

    `mean` is that of the first sample.
    """
    span = most - least
    ends = max(-span, low), min(span, high)
    firsts = [min(max(mean, least - min(0.0, end)), most - max(0.0, end)) for end in ends]
    return Apart(*ends, (firsts[0], firsts[1]))
