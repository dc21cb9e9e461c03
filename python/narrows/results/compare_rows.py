"""What a comparison consists of: groups of runs, and the rows of its metrics with differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from narrows.records import Direction
from narrows.results.emphasis import is_of_group
from narrows.results.metrics import value_text

IN_TIMES = 3.0
"""An increase beyond this factor is given as a factor, such as "19 times", not in percent."""


class Sample(Protocol):
    """What a comparison needs of a run: a `Run`, or a sweep's record of one."""

    @property
    def name(self) -> str:
        """The name of its scenario or settings."""

    @property
    def seed(self) -> int:
        """The seed of its random streams."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """Its metrics."""

    @property
    def status(self) -> str:
        """`complete` or `partial`."""

    @property
    def complete(self) -> bool:
        """Whether it ran to its scenario's end."""

    @property
    def stopped(self) -> str:
        """Why it ended."""

    @property
    def flags(self) -> Sequence[str]:
        """What readers should know before they trust a metric."""

    @property
    def folder(self) -> Path | None:
        """Its run folder, if there is one."""


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seeds."""

    label: str
    runs: tuple[Sample, ...]
    backend: str = ""
    """What ran them: `sim` or `kernel`."""
    left_out: int = 0
    """How many further runs were left out, because another group lacks their seeds."""

    @property
    def seeds(self) -> list[int]:
        """The runs' seeds, in their order."""
        return [run.seed for run in self.runs]

    @property
    def is_seedless(self) -> bool:
        """Whether there are several seeds and all gave the same metrics.

        Then nothing in the scenario is random, and the seeds do not show how certain a metric is.
        """
        first, *others = self.runs
        return bool(others) and all(run.summary == first.summary for run in others)


@dataclass(frozen=True)
class Difference:
    """A group's metric minus the first group's, in the metric's unit."""

    value: float
    low: float | None
    """Lower end of the 95 % interval; None if there is no interval."""
    high: float | None
    method: str
    """How the interval was computed; empty if there is none."""
    relative: float | None = None
    """The difference as a share of the first group's mean; None if that is zero."""
    seeds: int = 0
    """How many seeds both groups have, if differences are taken seed by seed; else 0."""
    least: float | None = None
    """The least difference of a seed, if seeds are paired."""
    most: float | None = None
    correlation: float | None = None
    """Pearson's correlation of the two groups' values for each seed, if three or more are paired.
    Pairing narrows the interval if it is clearly above zero."""
    of_queries: bool = False
    """Whether the interval comes from queries, not seeds. It does not show what another seed would
    give, so it makes no difference significant."""
    of_two: bool = False
    """Whether a group has only two runs. The interval then has one degree of freedom or little
    more, and makes no difference significant."""
    of_backends: bool = False
    """Whether the groups ran on different backends, so that neither is better or worse."""
    of_one: bool = False
    """Whether a group has only one run. The interval then takes the other group's spread for that
    of the single run, which nothing shows, so it makes no difference significant."""
    relative_low: float | None = None
    """The lower end of the interval as a share of the first group's mean. Where a metric that is
    never negative falls, the share is of the mean at this end of the interval, so that no metric
    falls by more than 100 %."""
    relative_high: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero and rests on enough runs to rely on."""
        weak = self.of_queries or self.of_one or self.of_two
        return self.verdict in ("higher", "lower") and not weak

    @property
    def verdict(self) -> Literal["higher", "lower", "unclear", "same", ""]:
        """What the interval says: `unclear` if it contains zero, empty if there is no interval."""
        if self.low is None or self.high is None:
            return ""
        if self.low == 0.0 == self.high:
            return "same"
        return "higher" if self.low > 0.0 else "lower" if self.high < 0.0 else "unclear"


@dataclass(frozen=True)
class Row:
    """One metric of every group."""

    key: str
    section: str
    name: str
    unit: str
    values: tuple[float | None, ...]
    """Mean over each group's runs; None if a run lacks the metric."""
    differences: tuple[Difference | None, ...]
    """Each group's difference from the first group; the first is None."""
    samples: tuple[tuple[float, ...], ...] = ()
    """The value of each run of each group; empty if a run lacks the metric."""
    is_score: bool = False
    """Whether the metric's scale does not begin at zero, so that shares of it mean nothing."""
    better: Direction = ""
    """Whether a higher or a lower value is better; empty if neither is."""

    @property
    def title(self) -> str:
        """The metric's name with its unit."""
        return self.name + (f" ({self.unit})" if self.unit else "")

    @property
    def full_title(self) -> str:
        """The title; the section comes first if the metric is of one group, queue or link."""
        is_of_one = is_of_group(self.key) or self.key.startswith(("queues.", "links."))
        return f"{self.section}: {self.title}" if is_of_one else self.title

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row in tables: the title, then value, difference and interval of each group."""
        cells = [self.title]
        for n, (value, difference) in enumerate(zip(self.values, self.differences, strict=True)):
            cells.append(value_text(value))
            if n and difference is not None:
                word = self.word(n)
                cells.append(signed(difference.value) + (f" {word}" if word else ""))
                cells.append(interval_text(difference))
            elif n:
                cells += ["-", "-"]
        return tuple(cells)

    def word(self, number: int) -> str:
        """`better` or `worse` for a group whose difference is significant; else empty.

        Between backends, it is `higher` or `lower`, because neither backend is better.
        """
        difference = self.differences[number]
        if difference is None or not difference.is_significant:
            return ""
        if difference.of_backends:
            return difference.verdict
        if not self.better:
            return ""
        return "better" if difference.verdict == self.better else "worse"

    def sentence(self, number: int, groups: Sequence[Group]) -> str:
        """A sentence on a group's difference; empty if the difference has no interval."""
        difference = self.differences[number]
        if difference is None or not difference.verdict:
            return ""
        first, other = groups[0].label, groups[number].label
        runs = (
            f"{difference.seeds} paired seeds"
            if difference.seeds
            else _runs(groups[0], groups[number])
        )
        what = f"{self.section}, {self.name}"
        if difference.verdict == "same":
            return f"{what}: {other} and {first} are the same with {runs}."
        size = f"{value_text(abs(difference.value))}{_unit(self.unit)}"
        interval = f"95 % interval {interval_text(difference)}{_unit(self.unit)}"
        if difference.of_queries:
            interval += " over the queries, taken as independent"
        if difference.verdict == "unclear":
            return (
                f"{what}: no difference seen between {other} and {first} with {runs} ({interval})."
            )
        judged = "" if difference.of_backends else self.word(number)
        word = f" ({judged})" if judged else ""
        change = f"{size} {difference.verdict}{word} than"
        if difference.relative is not None and self.unit != "%" and not self.is_score:
            interval = f"{signed(difference.value)}{_unit(self.unit)}, {interval}"
            change = f"{100.0 * abs(difference.relative):.3g} % {difference.verdict}{word} than"
            if 1.0 + difference.relative > IN_TIMES and (self.values[0] or 0.0) > 0.0:
                change = f"{1.0 + difference.relative:.3g} times as high{word} as"
        text = f"{what}: {other} is {change} {first}"
        if difference.of_queries:
            return f"{text} with {runs} ({interval})."
        if difference.of_one or difference.of_two:
            few = "one run is" if difference.of_one else "two runs are"
            return f"{text} with {runs} ({interval}); {few} too few to rely on."
        small = ""
        if (shown := value_text(self.values[0])) == value_text(self.values[number]):
            small = f", but small: both are {shown}{self.unit and f' {self.unit}'} in four digits"
        return f"{text} ({interval}); significant with {runs}{small}."

    def difference_text(self, number: int, groups: Sequence[Group]) -> str:
        """A sentence on a group's difference that has no interval; empty if there is none."""
        difference = self.differences[number]
        if difference is None or not difference.value:
            return ""
        word = "higher" if difference.value > 0.0 else "lower"
        return (
            f"{self.section}, {self.name}: {groups[number].label} is "
            f"{value_text(abs(difference.value))}{_unit(self.unit)} {word} than {groups[0].label} "
            f"with {_runs(groups[0], groups[number])} (no interval)."
        )


def signed(value: float) -> str:
    """A difference with its sign."""
    text = value_text(value)
    return text if text.startswith("-") or value == 0 else f"+{text}"


def interval_text(difference: Difference) -> str:
    """The interval of a difference in words; `-` if there is none."""
    if difference.low is None or difference.high is None or difference.low == difference.high:
        return "-"
    return f"{signed(difference.low)} to {signed(difference.high)}"


def _runs(first: Group, other: Group) -> str:
    """How many runs each group has: `one run of each`, `3 and 1 runs`."""
    counts = len(first.runs), len(other.runs)
    return "one run of each" if counts == (1, 1) else f"{counts[0]} and {counts[1]} runs"


def _unit(unit: str) -> str:
    """The unit of a difference, after its number; for shares it is points."""
    return " points" if unit == "%" else f" {unit}" if unit else ""
