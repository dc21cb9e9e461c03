"""What plots read from a run: series of one link, and the scenario's facts about its queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from narrows.errors import NarrowsError
from narrows.records.numbers import Floats
from narrows.report.bars import MOST_GROUPS
from narrows.results import Run
from narrows.scenario import Change, Direction, Dns, Link
from narrows.scenario.checks import matches

NONE: Mapping[str, Sequence[Run]] = MappingProxyType({})
"""No other runs."""


@dataclass(frozen=True)
class Threshold:
    """A level of the backlog at which a queue changes its behaviour."""

    name: str
    level: float
    """The level in the queue's unit."""


@dataclass(frozen=True)
class QueueFacts:
    """Facts about a queue, for a plot's labels."""

    label: str
    """The discipline's name in titles."""
    unit: str
    """`bytes` or `packets`: what the queue counts."""
    thresholds: tuple[Threshold, ...]
    rates: tuple[tuple[float, int], ...]
    """The link's rates: the time in seconds from which each holds, and bit/s; the first is at 0."""
    opportunities_ms: tuple[int, ...] | None
    """Milliseconds at which 1500 bytes may leave, repeatedly; None if the link has a rate."""
    target_ms: float | None
    """The waiting time that the queue aims for, in ms; None if it has no such target."""
    has_ring: bool
    """Whether a ring buffer is given; without one the link holds the packet in transmission."""
    is_shared: bool
    """Whether all packets wait in one queue, so that waiting times do not depend on the flow."""

    def offered(self, times_s: Floats) -> Floats:
        """Bytes that could have left by each time, on a link that follows a trace."""
        assert self.opportunities_ms is not None, "the link follows a trace"
        moments = np.asarray(self.opportunities_ms)
        passes, within_ms = np.divmod(times_s * 1e3, moments[-1])
        found = passes * len(moments) + np.searchsorted(moments, within_ms, side="right")
        return np.asarray(1500.0 * found, dtype=np.float64)


def monitored_queues(run: Run) -> list[str]:
    """Links whose queue was sampled, in the order of the samples."""
    return [str(link) for link in run.queues.get_column("link").unique(maintain_order=True)]


def monitored_links(run: Run) -> list[str]:
    """Links that were sampled, in the order of the samples."""
    return [str(link) for link in run.links.get_column("link").unique(maintain_order=True)]


def ends_text(run: Run) -> str:
    """Where sampled links lead, such as `access.forward from isp to home`; empty if unknown."""
    between = {str(link.get("name")): link.get("between") for link in _links(run.scenario)}
    found = []
    for link in dict.fromkeys([*monitored_queues(run), *monitored_links(run)]):
        name, _, direction = link.rpartition(".")
        nodes = between.get(name)
        if isinstance(nodes, list) and len(nodes) == 2 and direction in ("forward", "backward"):
            source, target = nodes if direction == "forward" else nodes[::-1]
            found.append(f"{link} from {source} to {target}")
    return "; ".join(found)


def sampled_at(samples: pl.DataFrame, link: str) -> Floats:
    """The times of one link's samples."""
    return column(samples, link, "t_s")[0]


def column(samples: pl.DataFrame, link: str, name: str) -> tuple[Floats, Floats]:
    """Times and values of a column of one link's samples; NaN for null."""
    part = samples.filter(pl.col("link") == link).sort("t_s")
    values = part.get_column(name).cast(pl.Float64).to_numpy()
    return part.get_column("t_s").to_numpy(), values


def asked(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The metrics of each DNS group by its name; empty without DNS.

    For one group, or more than a page should show, gives the metrics of all together, without name.
    Leaves out groups that were idle in the declared window, because they have no metrics.
    """
    groups = summary.get("dns_groups") or {}
    if 1 < len(groups) <= MOST_GROUPS:
        return {name: metrics for name, metrics in groups.items() if metrics}
    return {"": summary["dns"]} if summary.get("dns") else {}


def queue_facts(run: Run, link: str) -> QueueFacts | None:
    """What the run's scenario says about the queue of a link.

    None if this version does not understand how the scenario describes the link. Plots then lack
    their thresholds and show the rest.
    """
    name, _, which = link.rpartition(".")
    if which not in ("forward", "backward"):
        return None
    for values in _links(run.scenario):
        if values.get("name") == name:
            try:
                found = Link.model_validate(dict(values))
                direction = found.direction("forward" if which == "forward" else "backward")
                return _facts(direction, _later_rates(run.scenario, link, direction.rate))
            except (ValidationError, NarrowsError):
                return None
    return None


def retry_moments_s(run: Run) -> list[float]:
    """When the run's workers send attempts 2, 3, ..., in seconds after attempt 1.

    Empty where groups differ or ask over TCP, or where this version does not understand the
    scenario.
    """
    groups = run.scenario.get("dns", [])
    try:
        known = [Dns.model_validate(group) for group in groups]
        schedules = {tuple(dns.timeouts) for dns in known}
    except (ValidationError, NarrowsError, TypeError):
        return []
    if len(schedules) != 1:
        return []
    return [moment * 1e-12 for moment in accumulate(schedules.pop()[:-1])]


def retry_marks(runs: Sequence[Run]) -> list[tuple[float, str]]:
    """When workers sent attempts 2, 3, ..., in seconds after attempt 1, and a name for each mark.

    Only attempts that measured queries made have a mark. After a truncated or refused attempt, the
    next one is sent at once, before its time. If there were such attempts, the mark's name says
    that it is for the others. Empty if the runs' schedules differ.
    """
    first, *others = [retry_moments_s(run) for run in runs]
    if any(moments != first for moments in others):
        return []
    found = []
    for number, moment in enumerate(first, start=2):
        at_its_time = [
            abs(after_s - moment) <= NEAR * moment
            for run in runs
            for after_s in _sent_after_s(run, number)
        ]
        if any(at_its_time):
            words = f"attempt {number} sent"
            found.append((moment, words if all(at_its_time) else f"{words} after a timeout"))
    return found


NEAR = 0.05
"""How many seconds an attempt may be off its time; a kernel's are some milliseconds late."""


def _sent_after_s(run: Run, number: int) -> list[float]:
    """When measured queries made this attempt, in seconds after their first."""
    made = run.attempts.filter(pl.col("attempt") == number)
    made = made.join(run.queries.filter("measured"), on="query")
    return (made.get_column("sent_s") - made.get_column("start_s")).to_list()


def _links(scenario: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    links = scenario.get("links", [])
    return [link for link in links if isinstance(link, Mapping)] if isinstance(links, list) else []


def _later_rates(scenario: Mapping[str, Any], link: str, rate: int) -> list[tuple[float, int]]:
    """The rates after the first, each with its time; 0 while the link is down."""
    changes = [Change.model_validate(change) for change in scenario.get("changes", [])]
    found, is_up = [], True
    for change in sorted(changes, key=lambda change: change.at):
        if not matches(change.link, link) or (change.rate is None and change.state is None):
            continue
        rate = rate if change.rate is None else change.rate
        is_up = is_up if change.state is None else change.state == "up"
        found.append((change.at * 1e-12, rate if is_up else 0))
    return found


def _rates(
    direction: Direction, later: Sequence[tuple[float, int]]
) -> tuple[tuple[float, int], ...]:
    if direction.trace and direction.trace.rates:
        return tuple((at * 1e-12, rate) for at, rate in direction.trace.rates)
    return ((0.0, direction.rate), *later)


def _facts(direction: Direction, later_rates: Sequence[tuple[float, int]]) -> QueueFacts:
    facts = direction.queue.facts
    return QueueFacts(
        label=direction.queue.label,
        unit=facts.unit,
        thresholds=tuple(Threshold(name, level) for name, level in facts.levels),
        rates=_rates(direction, later_rates),
        opportunities_ms=direction.trace and direction.trace.opportunities,
        target_ms=None if facts.target is None else facts.target * 1e-9,
        has_ring=direction.ring is not None,
        is_shared=not facts.several_lines,
    )
