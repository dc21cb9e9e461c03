"""Draws scenarios, runs each on a kernel and in the simulator, and summarises the differences."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows.agreement.compare import METRICS, Comparison, Metric, compared
from narrows.agreement.distributions import CLASSIC, Distribution
from narrows.agreement.draws import set_of
from narrows.agreement.saved import kernel_run
from narrows.backends import get, run
from narrows.backends.interrupts import as_ended, until
from narrows.results import RunFolderError
from narrows.scenario import Bulk, Scenario
from narrows.scenario.amounts import DataRate

MOST_SEEDS = 100
"""How many runs a draw may have on each side; `narrows agreement` allows no more."""

WITHIN = 2.0
"""Most draws must lie within this multiple of the bound."""

SHARE = 0.9

LUCK = 1.5
"""No bound is below this multiple of what chance alone gives."""


@dataclass
class Agreement:
    """The results of an agreement."""

    seed: int
    draws: int
    sim_seeds: int
    kernel_seeds: int = 1
    kernel: Mapping[str, Any] = field(default_factory=dict)
    """The kernel that ran the draws: its name, version and kind of time."""
    comparisons: list[Comparison] = field(default_factory=list)
    interrupted: bool = False
    distribution: str = CLASSIC.name

    @property
    def counted(self) -> list[Comparison]:
        """The comparisons whose kernel run counts."""
        return [each for each in self.comparisons if not each.left_out]

    @property
    def at_the_jump(self) -> list[Comparison]:
        """The comparisons whose 95th percentile of response time is not compared."""
        return [each for each in self.counted if each.jump]

    def goodput_difference(self) -> float | None:
        """The mean over draws of the difference between connections of the same rank, in %."""
        found = [each.goodput_difference() for each in self.counted]
        return _mean([by for by in found if by is not None])

    @property
    def factors(self) -> list[float]:
        """The multiples of the bounds that the draws have, smallest first; each has a summary."""
        return sorted({each.factor for each in self.comparisons} | {1.0})

    def note_kernel(self, runs: Sequence[Mapping[str, Any]], folder: Path | None) -> None:
        """Notes which kernel did some runs.

        Raises:
            RunFolderError: Another kernel did the runs before, some of which ``folder`` held.
        """
        for facts in runs:
            kernel = {key: facts.get(key) for key in ("way", "version", "virtual_time")}
            before = self.kernel.get("version", kernel["version"])
            if before != kernel["version"]:
                versions = " and ".join(
                    words_of_version(each) for each in (before, kernel["version"])
                )
                raise RunFolderError(
                    folder or "agreement",
                    f"would mix runs of {versions}",
                    "name another folder, or use the backend of before",
                )
            self.kernel = kernel

    def summary(self, factor: float = 1.0) -> list[dict[str, Any]]:
        """Each metric's mean absolute difference, bound, and share within twice the bound.

        Metrics that no draw has are left out.

        Args:
            factor: Only draws with this multiple of the bounds count.
        """
        counted = [each for each in self.counted if each.factor == factor]
        found = {name for each in self.counted for name in each.differences()}
        return [self._entry(each, counted, factor) for each in METRICS if each.name in found]

    @staticmethod
    def _entry(metric: Metric, counted: Sequence[Comparison], factor: float) -> dict[str, Any]:
        judged = [each for each in counted if metric.name in each.judged()]
        values = [abs(each.judged()[metric.name]) for each in judged]
        chance = [each.chance()[metric.name] for each in judged if metric.name in each.chance()]
        everything = [
            abs(each.differences()[metric.name])
            for each in counted
            if metric.name in each.differences()
        ]
        own_bound = factor * metric.bound_shown
        mean = _mean(values)
        by_chance = _mean(chance)
        bound = max(own_bound, LUCK * (by_chance or 0.0))
        within = sum(value <= WITHIN * bound for value in values)
        return {
            "metric": metric.name,
            "unit": "%" if metric.relative else metric.unit and "points",
            "draws": len(values),
            "mean_absolute_difference": mean,
            "by_chance": by_chance,
            "bound": bound,
            "own_bound": own_bound,
            "within_twice_percent": 100.0 * within / len(values) if values else None,
            "agrees": mean is not None and mean <= bound and within >= SHARE * len(values),
            "draws_with_jumps": len(everything),
            "mean_absolute_difference_with_jumps": _mean(everything),
        }

    def document(self) -> dict[str, Any]:
        """Everything as JSON values."""
        others = [factor for factor in self.factors if factor != 1.0]
        return {
            "distribution": self.distribution,
            "set": set_of(self.seed),
            "seed": self.seed,
            "draws": self.draws,
            "sim_seeds": self.sim_seeds,
            "kernel_seeds": self.kernel_seeds,
            "kernel": dict(self.kernel),
            "complete": len(self.comparisons) == self.draws,
            "metrics": self.summary(),
            **{f"metrics_at_{factor:g}_bounds": self.summary(factor) for factor in others},
            "goodput_of_each_connection_percent": self.goodput_difference(),
            "comparisons": [
                {
                    "draw": each.number,
                    "what": each.what,
                    "left_out": each.left_out,
                    "at_the_jump": each.jump,
                    "kernel": dict(each.kernel),
                    "sim": dict(each.sim),
                    "differences": each.differences(),
                    "by_chance": each.chance(),
                    "kernel_runs": [dict(run) for run in each.kernel_runs],
                    "kernel_goodputs": each.kernel_goodputs,
                    "sim_goodputs": each.sim_goodputs,
                }
                for each in self.comparisons
            ],
        }


def conduct(
    *,
    draws: int,
    seed: int,
    sim_seeds: int = 10,
    kernel_seeds: int = 2,
    backend: str = "kernel",
    jobs: int = 1,
    progress: Callable[[int, int], object] | None = None,
    distribution: Distribution = CLASSIC,
    folder: Path | None = None,
) -> Agreement:
    """Runs draws 0 to `draws` - 1 of a seed.

    Args:
        draws: The number of draws.
        seed: The draws' seed: 0 to 99 for development, 1000 and above for sealed sets.
        sim_seeds: Simulator runs per draw.
        kernel_seeds: Kernel runs per draw; two or more show what chance gives.
        backend: The backend of the kernel.
        jobs: Draws that run at a time; each guest needs a core.
        progress: Called with the number of finished draws and the total.
        distribution: What the draws are drawn from.
        folder: Keeps the kernel's runs; runs that it already holds are not repeated.

    Raises:
        ValueError: More than `MOST_SEEDS` runs of a draw, which would share seeds with others.
        BackendError: The kernel is not available, or refuses a draw; then nothing has run.
        RunFolderError: A saved run cannot be read, or belongs to another draw or kernel.
    """
    if max(sim_seeds, kernel_seeds) > MOST_SEEDS:
        raise ValueError(f"a draw has at most {MOST_SEEDS} runs on each side")
    result = Agreement(seed, draws, sim_seeds, kernel_seeds, distribution=distribution.name)
    scenarios = [distribution.drawn(seed, number) for number in range(draws)]
    for scenario in scenarios:
        get(backend).check(scenario)
    stop = threading.Event()
    watch = until(stop)

    def one(number: int) -> Comparison:
        scenario = scenarios[number]
        # Each draw has seeds of its own: the same seed gives every draw the same starts and the
        # same shared queues, and their luck would not average out.
        first = 2 * MOST_SEEDS * number
        real = [
            kernel_run(folder, number, scenario, backend, watch, seed=first + other)
            for other in range(1, kernel_seeds + 1)
        ]
        facts = [each.host.get("kernel", {}) for each in real]
        result.note_kernel(facts, folder)
        # The kernel takes its start times from seeds too, so that each side has its own.
        simulated = [
            run(scenario, seed=first + MOST_SEEDS + other, progress=watch)
            for other in range(1, sim_seeds + 1)
        ]
        # What the kernel does in every run of the draw is not a reason to leave this run out.
        known = get(backend).differences(scenario)
        flags = dict.fromkeys(flag for each in facts for flag in each.get("flags", ()))
        left_out = "; ".join(flag for flag in flags if flag not in known)
        factor = distribution.factor(scenario)
        return compared(number, scenario.name, words(scenario), real, simulated, left_out, factor)

    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="narrows") as pool:
        futures = [pool.submit(one, number) for number in range(draws)]
        try:
            for done, future in enumerate(as_ended(futures), start=1):
                result.comparisons.append(future.result())
                if progress is not None:
                    progress(done, draws)
        except KeyboardInterrupt:
            result.interrupted = True
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    result.comparisons.sort(key=lambda each: each.number)
    return result


def words_of_version(version: str | None) -> str:
    """What did a run: a kernel of this version, or the simulator."""
    return "the simulator" if version is None else f"Linux {version}"


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def words(scenario: Scenario) -> str:
    """A draw in a few words."""
    bottleneck = scenario.links[0].direction("forward")
    bulk = scenario.traffic[0]
    assert isinstance(bulk, Bulk), "draws have nothing else"
    queue = bottleneck.queue
    marks = " ecn" if getattr(queue, "ecn", False) else ""
    ring = " ring" if bottleneck.ring is not None else ""
    delay = 2 * scenario.links[1].direction("forward").delay
    parts: Sequence[str] = (
        f"{queue.kind}{marks}{ring}",
        str(DataRate(bottleneck.rate)),
        f"{delay / 1e9:.0f} ms",
        f"{bulk.total} {bulk.tcp.congestion}{' paced' if bulk.tcp.pacing else ''}",
        _feedback(bulk),
        f"{scenario.dns[0].workers} workers over {scenario.dns[0].transport.kind}",
    )
    return ", ".join(parts)


def _feedback(bulk: Bulk) -> str:
    if bulk.tcp.ecn == "accurate":
        return "accurate ECN"
    all_have = bulk.tcp.counts_marks or bool(bulk.tcp.ecn)
    return f"{100 * (all_have if bulk.ecn_share is None else bulk.ecn_share):.0f} % ECN"
