"""The figures of a summary as a flat list with names and units, for tables and comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from narrows.records import Direction, Figure, Record
from narrows.results.extras import records

__all__ = ["Metric", "completed_text", "declared", "metrics", "possible", "value_text"]


@dataclass(frozen=True)
class Metric:
    """One figure of a run."""

    key: str
    """Path in the summary, with the names of links: unique within a run."""
    section: str
    """What it belongs to, such as `queue bottleneck.forward, DNS phase`."""
    name: str
    unit: str
    value: float
    scale: float = 1.0
    """The factor from the summary's unit to `unit`."""
    of: str = ""
    """What it covers if it leaves much out, such as `3 of 4 loads`."""
    range: tuple[float, float] | None = None
    """The lowest and highest possible value, if it is a score."""
    better: Direction = ""
    """Whether a higher or a lower value is better; empty if neither is."""


def metrics(summary: Mapping[str, Any], *, each_group: bool = False) -> list[Metric]:
    """The figures of a summary, in the order of its tables, without those that are null.

    With `each_group`, the figures of a TCP group are there even if it is the only one.
    """
    return list(_metrics(summary, fewest_groups=1 if each_group else 2))


def declared() -> dict[str, set[str]]:
    """The names of all figures that a run may have, by the section of the summary."""
    kinds = {name: {figure.key for figure in record.figures} for name, record in records().items()}
    return {"dns": {each.key for each in _DNS}, "flows": {each.key for each in _FLOWS}, **kinds}


def possible(values: Sequence[float], unit: str) -> tuple[float, float]:
    """The bounds of a figure, from all its values in all runs.

    A figure is never negative unless one of the values is, and a percentage is at most 100 unless
    one of them is more. The bounds are the same for all groups and combinations, whatever the
    values of each.

    Examples:
        >>> possible([0.5, 97.0], "%"), possible([0.5, 120.0], "ms"), possible([-0.5, 97.0], "dB")
        ((0.0, 100.0), (0.0, inf), (-inf, inf))
    """
    low = 0.0 if values and min(values) >= 0.0 else -math.inf
    high = 100.0 if unit == "%" and values and max(values) <= 100.0 else math.inf
    return low, high


def value_text(value: float | None) -> str:
    """A number for people: four significant digits, whole numbers in full.

    Examples:
        >>> value_text(97.3699), value_text(254178.2), value_text(0.012345), value_text(None)
        ('97.37', '254178', '0.01235', '-')
    """
    if value is None:
        return "-"
    if abs(value) >= 1000.0 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.4g}"


def _metrics(summary: Mapping[str, Any], *, fewest_groups: int) -> Iterator[Metric]:
    groups = summary.get("dns_groups") or {}
    yield from _dns(summary.get("dns"), "dns", "DNS")
    for group, figures in groups.items():
        yield from _dns(figures, f"dns_groups.{group}", f"DNS group {group}")
    for link, phases in (summary.get("queues") or {}).items():
        for phase, words in _PHASES.items():
            prefix, section = f"queues.{link}.{phase}", f"queue {link}, {words}"
            yield from _section(phases.get(phase), prefix, section, _QUEUE)
    for link, phases in (summary.get("links") or {}).items():
        for phase, words in _PHASES.items():
            prefix, section = f"links.{link}.{phase}", f"link {link}, {words}"
            yield from _section(phases.get(phase), prefix, section, _LINK)
    flows = summary.get("flows")
    yield from _section(flows, "flows", "TCP (bulk, once, on-off and ftp)", _FLOWS)
    groups = (flows or {}).get("groups") or {}
    if len(groups) >= fewest_groups:
        for group, figures in groups.items():
            yield from _section(figures, f"flows.groups.{group}", f"TCP group {group}", _FLOWS)
    # The registry of kinds is needed only if the summary has figures of theirs.
    if summary.keys() - _OF_EVERY_RUN:
        for name, record in records().items():
            yield from _extra(summary.get(name), record)


def _dns(figures: Mapping[str, Any] | None, prefix: str, section: str) -> Iterator[Metric]:
    """The figures of DNS. If queries were open at the end, shares say which ones they count."""
    for metric in _section(figures, prefix, section, _DNS):
        of = ""
        if figures and figures.get("unfinished"):
            key = metric.key.rpartition(".")[2]
            if key == "within_1s_percent":
                of = "of all queries that had a second to be answered in"
            elif key.endswith("_percent"):
                of = "of those that ended"
        yield replace(metric, of=of)


def _extra(figures: Mapping[str, Any] | None, record: Record) -> Iterator[Metric]:
    """The figures of a kind of traffic, those of its parts, and those of each of its groups."""
    name, title, parts = record.table.name, record.title, record.parts

    def section(values: Mapping[str, Any] | None, prefix: str, words: str) -> Iterator[Metric]:
        of = completed_text(values, record)
        for metric in _section(values, prefix, words, record.figures):
            is_partial = metric.key.rpartition(".")[2] in _partial(record)
            yield replace(metric, of=of if is_partial else "")

    yield from section(figures, name, f"{title}, {parts.whole}" if parts else title)
    for part, inner in (figures or {}).items():
        if parts is not None and isinstance(inner, Mapping) and part != "groups":
            for metric in section(inner, f"{name}.{part}", f"{title}, {part}"):
                if metric.key.rpartition(".")[2] in parts.figures:
                    yield metric
    for group, inner in ((figures or {}).get("groups") or {}).items():
        yield from section(inner, f"{name}.groups.{group}", f"{title}, group {group}")


def completed_text(figures: Mapping[str, Any] | None, record: Record) -> str:
    """How many items were completed, such as `3 of 4 loads`; empty if nearly all were."""
    if not figures or record.completed is None:
        return ""
    begun, done = figures.get(record.completed.begun), figures.get("completed")
    if not begun or done is None or done > (1.0 - LEFT_OUT) * begun:
        return ""
    return f"{done} of {begun} {record.completed.begun}"


LEFT_OUT = 0.05
"""If a mean lacks at least this share of the begun items, a note says so (docs/sweeps.md)."""


def _partial(record: Record) -> tuple[str, ...]:
    return () if record.completed is None else record.completed.figures


def _section(
    figures: Mapping[str, Any] | None, prefix: str, section: str, known: Sequence[Figure]
) -> Iterator[Metric]:
    for figure in known:
        value = None if figures is None else figures.get(figure.key)
        if isinstance(value, int | float):
            yield Metric(
                f"{prefix}.{figure.key}",
                section,
                figure.name,
                figure.unit,
                value * figure.scale,
                figure.scale,
                range=figure.range,
                better=figure.better,
            )


_PHASES = {"run": "whole run", "dns_phase": "DNS phase"}

_DNS = (
    Figure("queries", "measured queries"),
    Figure("unfinished", "queries open at the end"),
    Figure("first_attempt_percent", "answered at the first attempt", "%", better="higher"),
    Figure("truncated_percent", "truncated, asked again over TCP", "%"),
    Figure("without_retry_percent", "answered, and no attempt had failed", "%", better="higher"),
    Figure("within_1s_percent", "answered within a second", "%", better="higher"),
    Figure("unanswered_percent", "unanswered", "%", better="lower"),
    Figure("turned_away", "arrivals that were not asked", better="lower"),
    Figure("attempts_refused", "attempts: the server refused the connection", better="lower"),
    Figure("attempts_closed", "attempts: the server closed the connection", better="lower"),
    Figure("attempts_reset", "attempts: the server reset the connection", better="lower"),
    Figure("attempts_silent", "attempts: no answer in time over a connection", better="lower"),
    Figure("response_median_ms", "response time of answered queries, median", "ms", better="lower"),
    Figure(
        "response_p95_ms", "response time of answered queries, 95 % within", "ms", better="lower"
    ),
    Figure(
        "response_p99_ms", "response time of answered queries, 99 % within", "ms", better="lower"
    ),
    Figure("rtt_median_ms", "round trip of the answered attempt, median", "ms", better="lower"),
    Figure("packets_per_answer", "packets for an answer, both ways", better="lower"),
    Figure("late_answers", "late answers", better="lower"),
    Figure("queries_per_s", "queries per second", "1/s"),
)
_QUEUE = (
    Figure("backlog_mean_bytes", "backlog, mean", "kB", 1e-3),
    Figure("backlog_p5_bytes", "backlog, 5th percentile", "kB", 1e-3),
    Figure("backlog_p95_bytes", "backlog, 95th percentile", "kB", 1e-3),
    Figure("backlog_mean_packets", "backlog, mean", "packets"),
    Figure("ring_mean_bytes", "in the ring, mean", "kB", 1e-3),
    Figure("sojourn_mean_ms", "time in queue and ring, mean", "ms", better="lower"),
    Figure("held_mean_packets", "in queue and ring, mean over time", "packets"),
    Figure("drops_total_per_s", "drops", "1/s"),
    Figure("dns_drops_per_s", "drops of DNS packets", "1/s", better="lower"),
    Figure("marks_total_per_s", "marks", "1/s"),
    Figure("loss_percent", "packets dropped", "%", better="lower"),
)
_LINK = (
    Figure("utilisation_percent", "utilisation", "%"),
    Figure("throughput_mbit_per_s", "throughput with framing", "Mbit/s"),
    Figure("lost_per_s", "lost on the wire", "1/s"),
)
_FLOWS = (
    Figure("flows", "connections"),
    Figure("ecn_flows", "connections with ECN"),
    Figure("goodput_mbit_per_s", "goodput", "Mbit/s", better="higher"),
    Figure("jain_fairness", "Jain's fairness index", better="higher"),
    Figure("retransmitted_percent", "retransmitted segments", "%", better="lower"),
    Figure("timeouts", "retransmission timeouts", better="lower"),
    Figure("srtt_median_ms", "smoothed round-trip time, median", "ms", better="lower"),
)
_OF_EVERY_RUN = frozenset({"dns", "dns_groups", "queues", "links", "flows", "flags"})
