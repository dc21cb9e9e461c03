"""A sweep of the tests' own."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from narrows.report import SweepPlot
from narrows.results import Axis, Sweep, SweepRun

QUEUES: tuple[dict[str, Any], ...] = ({"kind": "pfifo", "limit": 9}, {"kind": "red", "limit": 9})


def summary(loss: float, goodput: float) -> dict[str, Any]:
    return {
        "queues": {"wan.forward": {"run": {"loss_percent": loss, "backlog_mean_bytes": 5000.0}}},
        "flows": {"goodput_mbit_per_s": goodput, "groups": {"a": {"goodput_mbit_per_s": goodput}}},
    }


def made(axes: tuple[Axis, ...], seeds: tuple[int, ...] = (1, 2, 3)) -> Sweep:
    """A sweep whose losses are 0.1, 0.2, ... % in the table's order."""
    combinations: list[dict[str, Any]] = [{}]
    for axis in axes:
        combinations = [{**at, axis.key: v} for at in combinations for v in axis.values]
    runs = [
        SweepRun(
            run=f"{number}/{seed}",
            settings=settings,
            seed=seed,
            status="complete",
            stopped="end",
            message="",
            end_s=1.0,
            events=1,
            summary=summary(0.1 * (number * len(seeds) + place + 1), 10.0 * 5.0**number),
        )
        for number, settings in enumerate(combinations)
        for place, seed in enumerate(seeds)
    ]
    return Sweep("made", {}, axes, seeds, tuple(runs), "0.1.0", "complete")


LIMITS = Axis("queue.limit", (100, 1000, 10))
RATES = Axis("links.wan.rate", ("1 Mbit/s", "500 kbit/s", "2 Mbit/s"))
KINDS = Axis("queue", QUEUES)


def figure(plot: SweepPlot) -> Figure:
    return plot.shown.figure
