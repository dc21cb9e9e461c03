"""The metrics of a summary as a flat list with names and units, for tables and comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from narrows.records import Direction, Metric, Record
from narrows.results.extras import records


@dataclass(frozen=True)
class MetricValue:
    """One metric of a run."""

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


def metrics(
    summary: Mapping[str, Any], *, each_group: bool = False, details: bool = False
) -> list[MetricValue]:
    """The metrics of a summary, in the order of its tables, without those that are null.

    With `each_group`, the metrics of a TCP group are there even if it is the only one. With
    `details`, there are also the metrics that summaries and comparisons leave out, such as drops by
    reason.
    """
    return list(_metrics(summary, fewest_groups=1 if each_group else 2, details=details))


def declared() -> dict[str, set[str]]:
    """The names of all metrics that a run may have, by the section of the summary."""
    kinds = {name: {metric.key for metric in record.metrics} for name, record in records().items()}
    return {"dns": {each.key for each in _DNS}, "flows": {each.key for each in _FLOWS}, **kinds}


def possible(values: Sequence[float], unit: str) -> tuple[float, float]:
    """The bounds of a metric, from all its values in all runs.

    A metric is never negative unless one of the values is, and a percentage is at most 100 unless
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


def _metrics(
    summary: Mapping[str, Any], *, fewest_groups: int, details: bool
) -> Iterator[MetricValue]:
    queue = (*_QUEUE, *_QUEUE_DETAILS) if details else _QUEUE
    link = (*_LINK, *_LINK_DETAILS) if details else _LINK
    tcp = (*_FLOWS, *_FLOWS_DETAILS) if details else _FLOWS
    groups = summary.get("dns_groups") or {}
    # Runs that are compared may have different windows, so their names leave the times out.
    words_of = {**_PHASES, "run": "declared window"} if summary.get("window") else _PHASES
    yield from _dns(summary.get("dns"), "dns", "DNS", details=details)
    for group, values in groups.items():
        yield from _dns(values, f"dns_groups.{group}", f"DNS group {group}", details=details)
    for name, phases in (summary.get("queues") or {}).items():
        for phase, words in words_of.items():
            prefix, section = f"queues.{name}.{phase}", f"queue {name}, {words}"
            yield from _section(phases.get(phase), prefix, section, queue)
    for name, phases in (summary.get("links") or {}).items():
        for phase, words in words_of.items():
            prefix, section = f"links.{name}.{phase}", f"link {name}, {words}"
            yield from _section(phases.get(phase), prefix, section, link)
    flows = summary.get("flows")
    yield from _flows(flows, "flows", "TCP (bulk, once, on-off and ftp)", tcp)
    groups = (flows or {}).get("groups") or {}
    if len(groups) >= fewest_groups:
        for group, values in groups.items():
            yield from _flows(values, f"flows.groups.{group}", f"TCP group {group}", tcp)
    for name, record in recorded([summary]).items():
        yield from _extra(summary.get(name), record, details=details)


def recorded(summaries: Iterable[Mapping[str, Any]]) -> Mapping[str, Record]:
    """The records of kinds of traffic, or none if no summary has a section of theirs.

    To load all kinds takes a while.
    """
    return records() if any(summary.keys() - _OF_EVERY_RUN for summary in summaries) else {}


def _flows(
    values: Mapping[str, Any] | None, prefix: str, section: str, known: Sequence[Metric]
) -> Iterator[MetricValue]:
    """The metrics of TCP connections, and the time over which goodput is a mean."""
    for metric in _section(values, prefix, section, known):
        window = (values or {}).get("window")
        if window and metric.key == f"{prefix}.goodput_mbit_per_s":
            span = f"from {value_text(window['start_s'])} to {value_text(window['end_s'])} s"
            metric = replace(metric, of=span)
        yield metric


def _dns(
    values: Mapping[str, Any] | None, prefix: str, section: str, *, details: bool
) -> Iterator[MetricValue]:
    """The metrics of DNS. If queries were open at the end, shares say which ones they count."""
    known = (*_DNS, *_dns_details(values)) if values and details else _DNS
    for metric in _section(values, prefix, section, known):
        of = ""
        if values and values.get("unfinished"):
            key = metric.key.rpartition(".")[2]
            if key == "within_1s_percent":
                of = "of all queries that had a second to be answered in"
            elif key.endswith("_percent"):
                of = "of those that ended"
        yield replace(metric, of=of)


def _extra(
    values: Mapping[str, Any] | None, record: Record, *, details: bool
) -> Iterator[MetricValue]:
    """The metrics of a kind of traffic, those of its parts, and those of each of its groups."""
    name, title, parts = record.table.name, record.title, record.parts

    def section(values: Mapping[str, Any] | None, prefix: str, words: str) -> Iterator[MetricValue]:
        of = completed_text(values, record)
        for metric in _section(values, prefix, words, record.metrics):
            is_partial = metric.key.rpartition(".")[2] in _partial(record)
            yield replace(metric, of=of if is_partial else "")

    yield from section(values, name, f"{title}, {parts.whole}" if parts else title)
    for part, inner in (values or {}).items():
        if parts is not None and isinstance(inner, Mapping) and part != "groups":
            for metric in section(inner, f"{name}.{part}", f"{title}, {part}"):
                if details or metric.key.rpartition(".")[2] in parts.metrics:
                    yield metric
    for group, inner in ((values or {}).get("groups") or {}).items():
        yield from section(inner, f"{name}.groups.{group}", f"{title}, group {group}")


def completed_text(values: Mapping[str, Any] | None, record: Record) -> str:
    """How many items were completed, such as `3 of 4 loads`; empty if nearly all were."""
    if not values or record.completed is None:
        return ""
    begun, done = values.get(record.completed.begun), values.get("completed")
    if not begun or done is None or done > (1.0 - LEFT_OUT) * begun:
        return ""
    return f"{done} of {begun} {record.completed.begun}"


LEFT_OUT = 0.05
"""If a mean lacks at least this share of the begun items, a note says so (docs/sweeps.md)."""


def _partial(record: Record) -> tuple[str, ...]:
    return () if record.completed is None else record.completed.metrics


def _section(
    values: Mapping[str, Any] | None, prefix: str, section: str, known: Sequence[Metric]
) -> Iterator[MetricValue]:
    for metric in known:
        value = None if values is None else _value(values, metric.key)
        if isinstance(value, int | float):
            yield MetricValue(
                f"{prefix}.{metric.key}",
                section,
                metric.name,
                metric.unit,
                value * metric.scale,
                metric.scale,
                range=metric.range,
                better=metric.better,
            )


def _value(values: Mapping[str, Any], path: str) -> Any:
    """The value at a path of keys and of numbers that count from 1; None if there is none."""
    found: Any = values
    for key in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, Sequence) and not isinstance(found, str):
            number = _ENDS.get(key) or int(key)
            found = found[number - 1] if number <= len(found) else None
        else:
            return None
    return found


_ENDS = {"low": 1, "high": 2}
"""The numbers of an interval's ends."""


def _dns_details(values: Mapping[str, Any]) -> Iterator[Metric]:
    """Metrics of DNS by attempt and by transport, and the times of its phases."""
    for number in range(1, len(values.get("answered_at_attempt") or []) + 1):
        at = f"answered at attempt {number}"
        yield Metric(f"answered_at_attempt.{number}", f"queries {at}")
        yield Metric(f"answered_at_attempt_percent.{number}", at, "%")
    yield from _DNS_DETAILS
    for transport in values.get("transports") or {}:
        for metric in _TRANSPORT:
            yield replace(
                metric,
                key=f"transports.{transport}.{metric.key}",
                name=f"{metric.name}, over {transport}",
            )


_PHASES = {"run": "whole run", "dns_phase": "DNS phase"}

_DNS = (
    Metric("queries", "measured queries"),
    Metric("unfinished", "queries open at the end"),
    Metric("first_attempt_percent", "answered at the first attempt", "%", better="higher"),
    Metric("truncated_percent", "truncated, asked again over TCP", "%"),
    Metric("without_retry_percent", "answered, and no attempt had failed", "%", better="higher"),
    Metric("within_1s_percent", "answered within a second", "%", better="higher"),
    Metric("unanswered_percent", "unanswered", "%", better="lower"),
    Metric("turned_away", "arrivals that were not asked", better="lower"),
    Metric("attempts_refused", "attempts: the server refused the connection", better="lower"),
    Metric("attempts_closed", "attempts: the server closed the connection", better="lower"),
    Metric("attempts_reset", "attempts: the server reset the connection", better="lower"),
    Metric("attempts_silent", "attempts: no answer in time over a connection", better="lower"),
    Metric("response_median_ms", "response time of answered queries, median", "ms", better="lower"),
    Metric(
        "response_p95_ms", "response time of answered queries, 95 % within", "ms", better="lower"
    ),
    Metric(
        "response_p99_ms", "response time of answered queries, 99 % within", "ms", better="lower"
    ),
    Metric("rtt_median_ms", "round trip of the answered attempt, median", "ms", better="lower"),
    Metric("packets_per_answer", "packets for an answer, both ways", better="lower"),
    Metric("late_answers", "late answers", better="lower"),
    Metric("queries_per_s", "queries per second", "1/s"),
)
_QUEUE = (
    Metric("backlog_mean_bytes", "backlog, mean", "kB", 1e-3),
    Metric("backlog_p5_bytes", "backlog, 5th percentile", "kB", 1e-3),
    Metric("backlog_p95_bytes", "backlog, 95th percentile", "kB", 1e-3),
    Metric("backlog_mean_packets", "backlog, mean", "packets"),
    Metric("ring_mean_bytes", "in the ring or in transmission, mean", "kB", 1e-3),
    Metric("sojourn_mean_ms", "time in queue and ring, mean", "ms", better="lower"),
    Metric("held_mean_packets", "in queue and ring, mean over time", "packets"),
    Metric("drops_total_per_s", "drops", "1/s"),
    Metric("dns_drops_per_s", "drops of DNS packets", "1/s", better="lower"),
    Metric("marks_total_per_s", "marks", "1/s"),
    Metric("loss_percent", "packets dropped", "%", better="lower"),
)
_LINK = (
    Metric("utilisation_percent", "utilisation", "%"),
    Metric("throughput_mbit_per_s", "throughput with framing", "Mbit/s"),
    Metric("lost_per_s", "lost on the wire", "1/s"),
)
_FLOWS = (
    Metric("flows", "connections"),
    Metric("ecn_flows", "connections with ECN"),
    Metric("goodput_mbit_per_s", "goodput", "Mbit/s", better="higher"),
    Metric("jain_fairness", "Jain's fairness index", better="higher"),
    Metric("retransmitted_percent", "retransmitted segments", "%", better="lower"),
    Metric("timeouts", "retransmission timeouts", better="lower"),
    Metric("srtt_median_ms", "smoothed round-trip time, median", "ms", better="lower"),
)
_SPAN_DETAILS = (
    Metric("start_s", "start of the time counted", "s"),
    Metric("end_s", "end of the time counted", "s"),
)
_DNS_DETAILS = (
    Metric("unanswered", "unanswered queries", better="lower"),
    Metric(
        "first_attempt_interval_percent.low",
        "answered at the first attempt, lower end of the interval",
        "%",
    ),
    Metric(
        "first_attempt_interval_percent.high",
        "answered at the first attempt, upper end of the interval",
        "%",
    ),
    Metric("dns_phase.start_s", "start of the DNS phase", "s"),
    Metric("dns_phase.end_s", "end of the DNS phase", "s"),
    Metric("dns_phase.length_s", "length of the DNS phase", "s"),
    Metric("measured_phase.start_s", "start of the measured queries", "s"),
    Metric("measured_phase.end_s", "end of the measured queries", "s"),
    Metric("measured_phase.length_s", "time of the measured queries", "s"),
)
_TRANSPORT = (
    Metric("attempts", "attempts"),
    Metric("reused_percent", "attempts on an open connection", "%"),
    Metric("handshake_median_ms", "handshake, median", "ms", better="lower"),
    Metric("packets_sent", "packets that clients sent"),
    Metric("bytes_sent", "data that clients sent", "bytes"),
    Metric("packets_received", "packets that clients received"),
    Metric("bytes_received", "data that clients received", "bytes"),
)
_QUEUE_DETAILS = (
    *_SPAN_DETAILS,
    Metric("samples", "samples"),
    Metric("backlog_p5_packets", "backlog, 5th percentile", "packets"),
    Metric("backlog_p95_packets", "backlog, 95th percentile", "packets"),
    Metric("drops_per_s.overflow", "drops, because the queue was full", "1/s"),
    Metric("drops_per_s.early", "drops that the AQM decided", "1/s"),
    Metric("drops_per_s.forced", "drops, because RED's average was above its maximum", "1/s"),
    Metric("marks_per_s.early", "marks that the AQM decided", "1/s"),
    Metric("marks_per_s.forced", "marks, because RED's average was above its maximum", "1/s"),
)
_LINK_DETAILS = (*_SPAN_DETAILS, Metric("packets_per_s", "packets", "1/s"))
_FLOWS_DETAILS = (
    Metric("segments_sent", "segments sent"),
    Metric("ecn_reductions", "reductions of the window by ECN"),
    Metric("window.start_s", "start of the first connection", "s"),
    Metric("window.end_s", "end of the last connection", "s"),
    Metric("window.length_s", "time over which goodput is a mean", "s"),
)
_OF_EVERY_RUN = frozenset({"window", "dns", "dns_groups", "queues", "links", "flows", "flags"})
