"""How certain the difference of a metric between two groups of runs is.

The interval of a difference (95 %) depends on the groups:

- both groups have the same seeds, two or more: Student's t interval of the mean of the differences
  seed by seed. A seed draws the same start times and think times in both scenarios, and effects
  that both have in common cancel;
- otherwise, if both have two runs or more: Welch's t interval of the difference of means; if their
  numbers differ, Student's t interval with a pooled variance where that is wider (`welch`);
- otherwise, if one group has a single run and the other three or more: Student's t interval for one
  more run of the larger group, compared with the single run;
- otherwise, for the shares of queries that were answered at the first attempt or within a second:
  Newcombe's interval of a difference of proportions, from all queries of each group, taken as
  independent (queries that meet the same full queue are not, so it is too narrow). It does not show
  how much another seed would differ, so it makes no difference significant;
- otherwise there is none, because one run does not show how much another seed would differ.

The interval of a single run against several tells whether one more of the several could have given
the single run's value. It assumes that the single run would vary as much as they do. Nothing shows
that this is so: another setting may well vary more, and then a run far out says little about its
mean. So the interval is printed, but it makes no difference significant, better or worse.

With two runs of a group, an interval has one degree of freedom or little more. It rests on two
numbers and on the assumption that they are normal, so it makes no difference significant.

There is no interval either if all runs differ by the same amount (a count that is 1 in each run,
and was 0): an interval without width would claim a certainty that they do not give. One of the two
shares that is the same in all runs of each group, as 0 % and 100 % are, has Newcombe's interval. It
makes a difference significant from five runs of each on: if each run could have been in either
group, they would divide like this in one case of 126, or in one of 16 if they are paired and the
two runs of a pair never agree.

Intervals stay within what is possible, as those of sweeps do: shares differ by 100 points at most,
and what is never negative falls by 100 % at most.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from narrows.results.compare_rows import Difference, Group
from narrows.results.few_seeds import ENOUGH
from narrows.results.intervals import Apart, newcombe, paired, prediction, welch
from narrows.results.success import counted

_FEWEST_TO_PREDICT = 3
"""The least number of runs whose spread shows what one more run may give."""

_UNEQUAL = (
    "Welch's t over the seeds, or Student's with a pooled variance where that is wider, because "
    "the groups differ in size"
)
_QUERIES = "Newcombe over the queries, taken as independent; more seeds give better ones"
_CONSTANT = "Newcombe over the queries, because all runs of a group give the same"

_PREDICTED = "Student's t for one more run of the group that has several"
"""How such an interval is computed."""


class Side(NamedTuple):
    """A group of runs, and a metric of each."""

    group: Group
    values: Sequence[float]
    """In the order of the group's runs; empty if a run lacks the metric."""


def difference(
    key: str, bounds: tuple[float, float], first: Side, other: Side
) -> Difference | None:
    """How far the other group's mean of a metric is from the first group's.

    Args:
        key: The metric's path in the summary.
        bounds: The lowest and highest possible value of the metric.
        first: The group that others are compared with.
        other: The group that is compared.

    Returns:
        The difference in the metric's unit, with its interval if there is one; None if a group
        lacks the metric.
    """
    before, after = first.values, other.values
    if not before or not after:
        return None
    mean = statistics.fmean(before)
    value = statistics.fmean(after) - mean
    if abs(value) <= 1e-9 * max(map(abs, [*before, *after])):
        value = 0.0  # rounding, no difference
    relative = value / abs(mean) if mean else None
    of_backends = first.group.backend != other.group.backend
    plain = Difference(value, None, None, "", relative, of_backends=of_backends)

    def spanned(ends: Apart, method: str, *, seeds: int = 0, **facts: Any) -> Difference:
        """The difference with its interval, or without one that has no width."""
        if value and ends.high - ends.low <= 1e-9 * abs(value):
            return replace(plain, seeds=seeds)
        found = replace(plain, low=ends.low, high=ends.high, method=method, seeds=seeds, **facts)
        if not mean:
            return found
        firsts = ends.firsts if bounds[0] == 0.0 else (mean, mean)
        low, high = (
            end / abs((at if end < 0.0 else mean) or mean)
            for end, at in zip((ends.low, ends.high), firsts, strict=True)
        )
        return replace(found, relative_low=low, relative_high=high)

    if first.group.is_seedless or other.group.is_seedless:
        return plain
    fewest, most = sorted((len(before), len(after)))
    if fewest >= ENOUGH and value and len(set(before)) == 1 == len(set(after)):
        ends = _over_queries(key, first, other)
        return spanned(ends, _CONSTANT) if ends else plain
    if fewest >= 2 and sorted(first.group.seeds) == sorted(other.group.seeds):
        of_seed = dict(zip(other.group.seeds, after, strict=True))
        partners = [of_seed[seed] for seed in first.group.seeds]
        each = [then - now for now, then in zip(before, partners, strict=True)]
        return spanned(
            paired(before, partners, *bounds),
            "Student's t over the differences of paired seeds",
            seeds=len(each),
            least=min(each),
            most=max(each),
            correlation=_correlation(before, partners),
            of_two=fewest == 2,
        )
    if fewest >= 2:
        method = "Welch's t over the seeds" if fewest == most else _UNEQUAL
        return spanned(welch(before, after, *bounds), method, of_two=fewest == 2)
    if fewest == 1 and most >= _FEWEST_TO_PREDICT:
        return spanned(prediction(before, after, *bounds), _PREDICTED, of_one=True)
    ends = _over_queries(key, first, other)
    return spanned(ends, _QUERIES, of_queries=True) if ends else plain


def _over_queries(key: str, first: Side, other: Side) -> Apart | None:
    """Newcombe's interval in percent; None if the metric is no share of all queries."""
    known = [counted([run.summary for run in of.group.runs], key) for of in (first, other)]
    if not known[0] or not known[1]:
        return None
    counts, totals = zip(known[0], known[1], strict=True)
    low, high, firsts = newcombe(counts, totals)
    return Apart(100.0 * low, 100.0 * high, (100.0 * firsts[0], 100.0 * firsts[1]))


def _correlation(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Pearson's correlation; None with fewer than three pairs, or if one side does not vary."""
    if len(before) < 3 or len(set(before)) < 2 or len(set(after)) < 2:
        return None
    return statistics.correlation(before, after)
