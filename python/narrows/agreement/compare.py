"""What counts as agreement: figures of a run in both, their difference, and its bound."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.results import Run

__all__ = ["METRICS", "Comparison", "Metric", "figures"]

LINK = "bottleneck.forward"

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """A figure of a run that both must have."""

    name: str
    unit: str
    read: Callable[[Summary], float | None]
    bound: float
    """The mean absolute difference that is agreement: points, or a share of the kernel's figure."""
    relative: bool
    floor: float = 0.0
    """Where the kernel's figure is smaller, the difference is taken as a share of this."""

    def difference(self, kernel: float, sim: float) -> float:
        """How far the simulator is off, signed: in points, or in per cent of the kernel's.

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
        """The bound in what `difference` gives."""
        return 100.0 * self.bound if self.relative else self.bound


def _queue(key: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary["queues"][LINK]["dns_phase"][key]


def _dns(key: str) -> Callable[[Summary], float | None]:
    return lambda summary: summary["dns"][key] if summary["dns"] else None


def _goodput(summary: Summary) -> float | None:
    flows = summary["flows"]
    return None if flows is None else flows["goodput_mbit_per_s"] / flows["flows"]


METRICS = (
    Metric("first-attempt success", "%", _dns("first_attempt_percent"), 1.0, relative=False),
    # A frame.
    Metric(
        "mean backlog", "bytes", _queue("backlog_mean_bytes"), 0.05, relative=True, floor=1514.0
    ),
    Metric("drops", "1/s", _queue("drops_total_per_s"), 0.10, relative=True, floor=1.0),
    Metric("marks", "1/s", _queue("marks_total_per_s"), 0.10, relative=True, floor=1.0),
    Metric("goodput of a flow", "Mbit/s", _goodput, 0.05, relative=True),
    Metric("response, 95 % within", "ms", _dns("response_p95_ms"), 0.10, relative=True),
)
"""The bounds are those that were set before anything was drawn."""


def figures(runs: Sequence[Run]) -> dict[str, float]:
    """Each metric, as the mean over runs; without those that a run does not have."""
    found = {}
    for metric in METRICS:
        values = [value for run in runs if (value := metric.read(run.summary)) is not None]
        if len(values) == len(runs):
            found[metric.name] = statistics.fmean(values)
    return found


@dataclass(frozen=True)
class Comparison:
    """A draw in both."""

    number: int
    name: str
    what: str
    """The draw in a few words."""
    kernel: Mapping[str, float]
    sim: Mapping[str, float]
    left_out: str = ""
    """Why the kernel's run says nothing; empty: it does."""

    def differences(self) -> dict[str, float]:
        """How far the simulator is off, by metric; without metrics that one of them lacks."""
        return {
            metric.name: metric.difference(self.kernel[metric.name], self.sim[metric.name])
            for metric in METRICS
            if metric.name in self.kernel and metric.name in self.sim
        }

    def worst(self) -> float:
        """The largest difference in units of its bound."""
        bounds = {metric.name: metric.bound_shown for metric in METRICS}
        return max((abs(by) / bounds[name] for name, by in self.differences().items()), default=0.0)
