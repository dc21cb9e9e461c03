"""Backlog of a queue over time, with the levels at which the queue acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows.records.plotted import Declaration, Mark, Series
from narrows.report.drawing import CYCLE
from narrows.report.plots.over_time import TIME, events, from_zero
from narrows.report.source import QueueFacts, queue_facts
from narrows.results import Run

_COLORS = {"min": "green", "max": "vermilion", "limit": "ink"}

_HIGHEST = 4.0
"""In a comparison, limits above this many times the highest backlog are not drawn: they would
flatten the curves."""


def backlog(runs: Mapping[str, Run], link: str) -> Declaration:
    """Backlog of a monitored queue with its levels; of a single run, ring and average too.

    The unit is packets if all queues count packets, and kB otherwise.

    Args:
        runs: Runs by label.
        link: A link whose queue each of them sampled.
    """
    facts = {label: queue_facts(run, link) for label, run in runs.items()}
    packets = all(each is not None and each.unit == "packets" for each in facts.values())
    scale, unit, kind = (1.0, "packets", "packets") if packets else (1e-3, "kB", "bytes")
    first = next(iter(facts.values()))

    def series(label: str, column: str, **looks: object) -> Series:
        y = f"{column}_{kind}"
        given = {"where": {"link": link}, **looks}
        return Series(label, "queues", "t_s", ("*", scale, y), **given)  # type: ignore[arg-type]

    below = "in transmission" if first and not first.has_ring else "in the card's ring"
    shown = (
        series(below, "ring", shape="area", color="muted", width=0.5, omit="zero", several=False),
        series("in the queue", "backlog", color="blue", width=1.0),
        series(
            "RED's average", "average", color="orange", width=2.0, omit="missing", several=False
        ),
    )
    levels = (
        _thresholds(first, scale, unit)
        if len(runs) == 1
        else _limits(list(facts.values()), scale, unit, packets)
    )
    name = f"{first.label} queue" if first else "Queue"
    every = list(runs.values())
    return Declaration(
        f"backlog-{link}",
        f"{name} at {link}: backlog" if len(runs) == 1 else f"Backlog of the queue at {link}",
        TIME,
        from_zero(f"backlog ({unit})"),
        shown,
        (*levels, *events(every)),
        height=3.8 if len(runs) == 1 else 3.4,
    )


def _thresholds(facts: QueueFacts | None, scale: float, unit: str) -> list[Mark]:
    found = []
    for threshold in facts.thresholds if facts else ():
        lasts = facts and facts.unit == "bytes" and threshold.name == "limit"
        rate = facts.rates[0][1] if facts and lasts and len(facts.rates) == 1 else 0
        found.append(
            Mark(
                "y",
                threshold.level * scale,
                threshold.name,
                _COLORS[threshold.name],
                dash=True,
                unit=unit,
                per_s=rate * scale / 8.0,
            )
        )
    return found


def _limits(
    facts: Sequence[QueueFacts | None], scale: float, unit: str, packets: bool
) -> list[Mark]:
    """The limits of cases in their colours, and one that all share only once."""
    limits = {
        number: threshold.level * scale
        for number, each in enumerate(facts)
        if each is not None and (each.unit == "packets") is packets
        for threshold in each.thresholds
        if threshold.name == "limit"
    }
    colors = {number: CYCLE[number % len(CYCLE)] for number in limits}
    if len(limits) == len(facts) and len(set(limits.values())) == 1:
        limits, colors = {0: limits[0]}, {0: "ink"}
    return [
        Mark("y", at, "limit", colors[number], dash=True, most=_HIGHEST, unit=unit)
        for number, at in limits.items()
    ]
