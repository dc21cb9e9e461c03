"""What a paper claims, and the verdict on it.

A claim is a number with a tolerance, or an inequality that the paper words. Both are written down
before the first comparison; see each paper's README for the tolerances' reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from narrows.reproduce.statistics import (
    Interval,
    bounded_interval,
    deviation_interval,
    scaled_interval,
)

MOST_SEEDS = 10_000
"""The most seeds that are suggested to decide a claim."""

FEWEST = 3
"""The least number of runs that decides the sign of a difference."""

SHARE = (0.0, 100.0)
"""Bounds of a share in percent."""
NOT_NEGATIVE = (0.0, math.inf)
"""Bounds of counts, times, ratios, and distances without a sign."""

Series: TypeAlias = tuple[list[float], list[float]]
"""Abscissae and ordinates of a curve."""


class Verdict(StrEnum):
    """The outcome for one claim."""

    HOLDS = "holds"
    """A number: our 95 % interval lies inside the tolerance. In words: it holds at 95 %."""
    DEPENDS = "depends"
    """A listed choice turns *holds* into *fails*, or the reverse."""
    FAILS = "fails"
    """A number: our interval lies wholly outside the tolerance. In words: contradicted at 95 %."""
    UNDECIDED = "undecided"
    """The interval overlaps both sides, or two runs are too few: more seeds are needed."""
    FITTED = "fitted"
    """The published value was used to choose a setting, so it proves nothing."""
    NOT_TESTED = "not tested"
    """No run, or too few runs for an interval."""


@dataclass(frozen=True)
class Measured:
    """The result of one run of one cell: named metrics, and curves for the plots."""

    values: Mapping[str, float]
    curves: Mapping[str, Series] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def reading(self, others: Mapping[str, str]) -> Measured:
        """Returns the run with other metrics under the usual names, as far as it has them."""
        swapped = {
            name: self.values[other] for name, other in others.items() if other in self.values
        }
        return Measured({**self.values, **swapped}, self.curves)


Measure: TypeAlias = Callable[[Mapping[str, Measured]], float]
"""Computes a claim's metric from one run of each of its cells."""


@dataclass(frozen=True)
class Worded:
    """A claim in words, as an inequality of the measured metric."""

    sentence: str
    """The inequality in words."""
    relation: Literal["at least", "at most"]
    bound: float
    """The bound, in the claim's unit."""


@dataclass(frozen=True)
class Claim:
    """One number that a paper prints, or one sentence of it.

    `measure` computes the claim's metric from one run of each cell that it names, all with the
    same seed; metrics that compare cells are therefore paired by seed.
    """

    id: str
    """The id, such as `H1`; several claims with one id differ in `metric`."""
    metric: str
    unit: str
    cells: tuple[str, ...]
    measure: Measure
    published: float | None = None
    tolerance: float | None = None
    """Half-width about `published`, in `unit`."""
    worded: Worded | None = None
    statistic: Literal["mean", "deviation"] = "mean"
    """The statistic over the seeds: the mean, or the standard deviation."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """The least and the largest value that the metric can have; its interval lies between them."""
    read_from: str = ""
    """Whose plot the published number was read off, if the authors did not print it. Such a claim
    never holds: within its reading error, it is undecided."""
    fitted: bool = False
    """Whether a setting was chosen to give this value."""
    note: str = ""
    """What goes beyond the paper's own words, such as a derived number or our interpretation."""
    reason: str = ""
    """Why our metric differs, if it does and the reason is known."""

    def __post_init__(self) -> None:
        if (self.published is None) != (self.tolerance is None):
            raise ValueError(
                f"{self.id} {self.metric}: a published number needs a tolerance, and the reverse"
            )
        if (self.published is None) == (self.worded is None):
            raise ValueError(
                f"{self.id} {self.metric}: either a published number or a worded inequality"
            )

    @property
    def key(self) -> tuple[str, str]:
        """The claim's key: id and metric."""
        return (self.id, self.metric)

    def interval(self, values: Sequence[float]) -> Interval:
        """The 95 % interval over seeds of the claim's statistic."""
        if self.statistic == "deviation":
            return deviation_interval(values)
        return bounded_interval(values, *self.bounds)

    def test(self, interval: Interval | None) -> Verdict:
        """The verdict without other choices: holds, fails, undecided or not tested.

        Two runs do not decide the sign of a difference, as in `narrows compare`: two differences
        that agree by chance are not rare, and then look certain.
        """
        if interval is None or not math.isfinite(interval.low) or not math.isfinite(interval.high):
            return Verdict.NOT_TESTED
        if interval.count < FEWEST and math.isinf(self.bounds[0]):
            return Verdict.UNDECIDED
        low, high = self.accepted
        if interval.inside(low, high):
            return Verdict.UNDECIDED if self.read_from else Verdict.HOLDS
        outside = interval.high < low or interval.low > high
        return Verdict.FAILS if outside else Verdict.UNDECIDED

    @property
    def accepted(self) -> tuple[float, float]:
        """The range of values for which the claim holds, ends included."""
        if self.worded is not None:
            if self.worded.relation == "at least":
                return self.worded.bound, math.inf
            return -math.inf, self.worded.bound
        assert self.published is not None and self.tolerance is not None, "checked at construction"
        return self.published - self.tolerance, self.published + self.tolerance

    def seeds_to_decide(self, interval: Interval) -> int | None:
        """About how many seeds would decide the claim if mean and deviation stay as they are.

        `None`: more than `MOST_SEEDS`, or no number would, because our mean lies on the edge.
        """

        def decided(count: int) -> bool:
            scaled = scaled_interval(interval, count, self.statistic, self.bounds)
            return self.test(scaled) is not Verdict.UNDECIDED

        if not decided(MOST_SEEDS):
            return None
        few, enough = interval.count, MOST_SEEDS
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if decided(middle) else (middle, enough)
        return enough


@dataclass(frozen=True)
class Judged:
    """A claim with its measurements."""

    claim: Claim
    interval: Interval | None
    """Our 95 % interval; `None` if no seed was run in all of its cells."""
    verdict: Verdict
    choices: Mapping[str, tuple[Interval | None, Verdict]] = field(default_factory=dict)
    """The same under each other choice that was run and that changes the claim's cells."""
    bases: Mapping[str, Interval | None] = field(default_factory=dict)
    """By choice: our interval from its cells and seeds only, if the claim has others too."""

    @property
    def difference(self) -> float | None:
        """Our metric minus the published number, in the claim's unit."""
        if self.interval is None or self.claim.published is None:
            return None
        return self.interval.mean - self.claim.published

    @property
    def flips(self) -> list[str]:
        """Names of the other choices that turn *holds* into *fails*, or the reverse."""
        return [
            name
            for name, (_, verdict) in self.choices.items()
            if {self.base(name), verdict} == {Verdict.HOLDS, Verdict.FAILS}
        ]

    @property
    def within_reading(self) -> bool:
        """Whether the whole interval lies within the reading error of a number from a plot."""
        return (
            bool(self.claim.read_from)
            and self.interval is not None
            and self.interval.inside(*self.claim.accepted)
        )

    @property
    def seeds_needed(self) -> int | None:
        """About how many seeds would decide an undecided claim; `None` for others, or too many."""
        if self.verdict is not Verdict.UNDECIDED or self.interval is None:
            return None
        return self.claim.seeds_to_decide(self.interval)

    def base(self, choice: str) -> Verdict:
        """The verdict with which another choice is compared."""
        return self.claim.test(self.bases.get(choice, self.interval))


def reason_of(claim: Claim, reasons: Mapping[tuple[str, str], str]) -> str:
    """The first reason for the claim's id and words of its metric; empty if there is none."""
    for (id, words), reason in reasons.items():
        if claim.id == id and words in claim.metric:
            return reason
    return ""


def metric_of(cell: str, name: str) -> Measure:
    """Makes the `measure` of a claim that reads one metric of one cell."""
    return lambda runs: runs[cell][name]


def less(cell: str, other: str, name: str) -> Measure:
    """Makes the `measure` of a claim on a metric of one cell minus that of another."""
    return lambda runs: runs[cell][name] - runs[other][name]


def worded(
    id: str,
    metric: str,
    unit: str,
    cells: tuple[str, ...],
    measure: Measure,
    inequality: tuple[str, Literal["at least", "at most"], float],
    bounds: tuple[float, float] = (-math.inf, math.inf),
    **more: Any,
) -> Claim:
    """Makes a claim in words; `more` has other fields of the claim."""
    words = Worded(*inequality)
    return Claim(id, metric, unit, cells, measure, worded=words, bounds=bounds, **more)


def judge(
    claim: Claim,
    interval: Interval | None,
    choices: Mapping[str, Interval | None] | None = None,
    bases: Mapping[str, Interval | None] | None = None,
) -> Judged:
    """Judges `claim` from the interval of the base runs and of each other choice.

    For a choice with fewer seeds or cells, `bases` holds the interval of the base runs with the
    same seeds and cells. An interval that is wider only for lack of seeds then flips no verdict.
    """
    tested = {name: (choice, claim.test(choice)) for name, choice in (choices or {}).items()}
    verdict = claim.test(interval)
    judged = Judged(claim, interval, verdict, tested, bases or {})
    if claim.fitted and verdict in (Verdict.HOLDS, Verdict.UNDECIDED):
        return replace(judged, verdict=Verdict.FITTED)
    return replace(judged, verdict=Verdict.DEPENDS) if judged.flips else judged
