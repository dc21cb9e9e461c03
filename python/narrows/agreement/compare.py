"""Defines agreement: metrics of a run on both sides, their difference, and its bound.

Each metric is a mean over seeds, of the kernel and of the simulator. Two runs of the same scenario
differ by chance. `Comparison.chance` says how far a perfect simulator would be off: it follows from
how much the kernel's own runs differ from each other, in pairs. Where chance alone comes close to a
bound, 1.5 times its mean over the draws takes the bound's place.

If the first attempt (or the second, ...) answers about 95 % of the queries, the 95th percentile of
response time is useless as a measure: chance decides whether it is the time of that attempt or of
the next one, a second or more later. A draw *stands at the jump* if the share that some attempt
answers is too close to 95 % for chance to be excluded, in one of the kernel's runs or in the mean
of the simulator's. Too close means within two standard deviations of the simulator's runs and of
their mean. Such a draw's response times are not compared. Its share of queries answered at the
first attempt is compared, as in every draw. The rule was set before a sealed set was drawn.

Each connection's goodput is compared by rank, because which connection is the fastest is chance. It
has no bound.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from typing import Any

from narrows.results import Run

LINK = "bottleneck.forward"

RESPONSE = "response, 95 % within"
PERCENTILE = 95.0

SURE = 2.0
"""Within this many standard deviations of 95 %, chance decides the percentile."""

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """A metric of a run in which the kernel and the simulator must agree."""

    name: str
    unit: str
    read: Callable[[Summary], float | None]
    bound: float
    """The largest mean absolute difference that counts as agreement: points, or a share of the
    kernel's metric."""
    relative: bool
    floor: float = 0.0
    """If the kernel's metric is smaller than this, the difference is a share of this instead."""

    def difference(self, kernel: float, sim: float) -> float:
        """How far the simulator is off, signed: in points, or in per cent of the kernel's metric.

        Examples:
            >>> drops = METRICS[2]
            >>> drops.difference(200.0, 210.0), drops.difference(0.0, 0.1)
            (5.0, 10.0)
        """
        if not self.relative:
            return sim - kernel
        return 100.0 * (sim - kernel) / max(abs(kernel), self.floor)

    @property
    def bound_shown(self) -> float:
        """The bound in the unit of `difference`."""
        return 100.0 * self.bound if self.relative else self.bound


def _queue(key: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary["queues"][LINK]["dns_phase"][key]


def _dns(key: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary["dns"][key] if summary["dns"] else None


def _flows(key: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary["flows"][key] if summary["flows"] else None


def _jain(summary: Summary) -> float | None:
    """Jain's index of all connections; of the first group, if there are several."""
    flows = summary["flows"] or {}
    each = [flows, *flows.get("groups", {}).values()]
    found = (one.get("jain_fairness") for one in each)
    return next((index for index in found if index is not None), None)


def _share(summary: Summary) -> float | None:
    """The first group's share of the goodput of two groups, in %."""
    groups = (summary["flows"] or {}).get("groups", {})
    goodputs = [group["goodput_mbit_per_s"] for group in groups.values()]
    return 100.0 * goodputs[0] / sum(goodputs) if len(goodputs) == 2 and any(goodputs) else None


METRICS = (
    Metric("first-attempt success", "%", _dns("first_attempt_percent"), 0.5, relative=False),
    # A frame.
    Metric(
        "mean backlog", "bytes", _queue("backlog_mean_bytes"), 0.025, relative=True, floor=1514.0
    ),
    Metric("drops", "1/s", _queue("drops_total_per_s"), 0.05, relative=True, floor=1.0),
    Metric("marks", "1/s", _queue("marks_total_per_s"), 0.05, relative=True, floor=1.0),
    # What all connections deliver of what the link carries.
    Metric("utilisation", "Mbit/s", _flows("goodput_mbit_per_s"), 0.005, relative=True),
    Metric("Jain's index", "", _jain, 0.01, relative=False),
    Metric(RESPONSE, "ms", _dns("response_p95_ms"), 0.02, relative=True),
    # Two groups have other hosts, and often other tins.
    Metric("share of the first group", "%", _share, 1.0, relative=False),
)
"""The metrics, with their bounds. A draw with one group has no share of the first one. These bounds
are those of the draws since November 2026, and were set before any of them; the sets up to seed
1003 had wider ones."""


def metrics(run: Run) -> dict[str, float]:
    """The metrics that a run has, by name."""
    found = {metric.name: metric.read(run.summary) for metric in METRICS}
    return {name: value for name, value in found.items() if value is not None}


def goodputs(run: Run) -> tuple[float, ...]:
    """The goodput of each connection in Mbit/s over the whole run, lowest first."""
    received = run.flows.get_column("bytes_received").fill_null(0).to_list()
    return tuple(sorted(8e-6 * each / run.end_s for each in received))


def answered(run: Run) -> list[float]:
    """For each attempt, the per cent of answered queries that it or an earlier one answered."""
    dns = run.summary["dns"]
    counts = dns["answered_at_attempt"] if dns else []
    total = sum(counts)
    return [100.0 * part / total for part in accumulate(counts)] if total else []


def compared(
    number: int,
    name: str,
    what: str,
    kernel: Sequence[Run],
    sim: Sequence[Run],
    left_out: str = "",
    factor: float = 1.0,
) -> Comparison:
    """Compares a draw's kernel runs with its simulator runs."""
    shares = [answered(run) for run in sim]
    jumps = (at_the_jump(answered(real), shares) for real in kernel)
    return Comparison(
        number,
        name,
        what,
        tuple(metrics(run) for run in kernel),
        tuple(metrics(run) for run in sim),
        left_out,
        next(filter(None, jumps), ""),
        tuple(goodputs(run) for run in kernel),
        tuple(goodputs(run) for run in sim),
        factor,
    )


def at_the_jump(kernel: Sequence[float], sim: Sequence[Sequence[float]]) -> str:
    """Names the attempt whose share is so close to 95 % that chance decides; empty if none is.

    Args:
        kernel: The result of `answered` for the kernel's run.
        sim: The same for each simulated run.

    Examples:
        >>> at_the_jump([94.9, 99.9], [[94.5, 99.8], [95.1, 99.9], [94.8, 99.9]])
        'attempt 1 answers 94.9 % and 94.8 %'
        >>> at_the_jump([90.1, 98.9], [[90.5, 99.2], [90.0, 99.3], [90.2, 99.1]])
        ''
    """
    if len(sim) < 2:
        return ""
    for attempt, ours in enumerate(kernel):
        theirs = [shares[min(attempt, len(shares) - 1)] for shares in sim if shares]
        if len(theirs) < 2:
            return ""
        mean = statistics.fmean(theirs)
        luck = SURE * statistics.stdev(theirs) * math.sqrt(1.0 + 1.0 / len(theirs))
        if min(abs(ours - PERCENTILE), abs(mean - PERCENTILE)) < luck:
            return f"attempt {attempt + 1} answers {ours:.1f} % and {mean:.1f} %"
    return ""


@dataclass(frozen=True)
class Comparison:
    """A draw on the kernel and in the simulator."""

    number: int
    name: str
    what: str
    """The draw, in a few words."""
    kernel_runs: Sequence[Mapping[str, float]]
    """The metrics of the kernel's runs, one run for each seed."""
    sim_runs: Sequence[Mapping[str, float]]
    """The same of the simulator's runs."""
    left_out: str = ""
    """Why the kernel's runs do not count; empty if they do."""
    jump: str = ""
    """Why the 95th percentile of response time is not compared; empty if it is."""
    kernel_goodputs: Sequence[Sequence[float]] = ()
    """The goodput of each connection in each of the kernel's runs, lowest first."""
    sim_goodputs: Sequence[Sequence[float]] = ()
    factor: float = 1.0
    """The bounds of this draw are this multiple of the metrics' own."""

    @cached_property
    def kernel(self) -> dict[str, float]:
        """The mean of each metric over the kernel's runs."""
        return _means(self.kernel_runs)

    @cached_property
    def sim(self) -> dict[str, float]:
        """The mean of each metric over the simulator's runs."""
        return _means(self.sim_runs)

    def differences(self) -> dict[str, float]:
        """How far the simulator is off, by metric, for the metrics that both sides have."""
        return {
            metric.name: metric.difference(self.kernel[metric.name], self.sim[metric.name])
            for metric in METRICS
            if metric.name in self.kernel and metric.name in self.sim
        }

    def judged(self) -> dict[str, float]:
        """The differences that count: all but the percentile of a draw that stands at the jump."""
        return {
            name: by for name, by in self.differences().items() if name != RESPONSE or not self.jump
        }

    def chance(self) -> dict[str, float]:
        """How far a perfect simulator would be off, from pairs of the kernel's runs.

        Two runs differ by sqrt(2) standard deviations of one; the means of m and n runs differ by
        sqrt(1/m + 1/n) of them.
        """
        if len(self.kernel_runs) < 2 or not self.sim_runs:
            return {}
        of_means = math.sqrt((1 / len(self.kernel_runs) + 1 / len(self.sim_runs)) / 2.0)
        found = {}
        for metric in METRICS:
            if metric.name not in self.differences():
                continue
            values = [run[metric.name] for run in self.kernel_runs]
            unit = self.kernel[metric.name] if metric.relative else 0.0
            found[metric.name] = of_means * statistics.fmean(
                abs(metric.difference(unit, unit + one - other))
                for one, other in combinations(values, 2)
            )
        return found

    def goodput_difference(self) -> float | None:
        """The mean difference between connections of the same rank, in % of the mean goodput."""
        if not (self.kernel_goodputs and self.sim_goodputs):
            return None
        kernel, sim = _by_rank(self.kernel_goodputs), _by_rank(self.sim_goodputs)
        if len(kernel) != len(sim) or not any(kernel):
            return None
        off = statistics.fmean(abs(ours - theirs) for ours, theirs in zip(sim, kernel, strict=True))
        return 100.0 * off / statistics.fmean(kernel)

    def worst(self) -> float:
        """The largest of the differences that count, each in units of its bound."""
        bounds = {metric.name: self.factor * metric.bound_shown for metric in METRICS}
        return max((abs(by) / bounds[name] for name, by in self.judged().items()), default=0.0)


def _means(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {
        metric.name: statistics.fmean(run[metric.name] for run in runs)
        for metric in METRICS
        if runs and all(metric.name in run for run in runs)
    }


def _by_rank(runs: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.fmean(goodputs) for goodputs in zip(*runs, strict=True)]
