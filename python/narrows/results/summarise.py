"""Computes a run's metrics from its tables: plain JSON values, the same for the same tables.

Sums are exactly rounded (``math.fsum``), so they do not depend on the order of summation. Metrics
have nine significant digits. A run has these phases:

- ``run``: from 0 to the end, or the window that the scenario declares.
- ``dns_phase``: from the sending of the first query, warm-up included, until the last query is
  done. The kernel reference takes its drops, marks and backlog over it.
- ``measured_phase``: the same for measured queries only. Workers end their warm-up at different
  times, so others may still be warming up when it starts.

A declared window cuts off the parts of the other phases that lie outside it.

Rates over a phase come from the cumulative counters, interpolated linearly between samples at the
phase's ends. Means and percentiles of a backlog are over the samples within the phase.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from narrows.records.numbers import (
    Floats,
    floats,
    mean,
    percent,
    percentile,
    ratio,
    reached,
    row_floats,
    total,
)
from narrows.results.extras import SAMPLES, summaries
from narrows.results.flow_samples import FLOW_SAMPLES, flows_within
from narrows.results.frozen import standstills
from narrows.results.intervals import wilson
from narrows.results.late import late_replies
from narrows.results.parts import Mask, by_value, flags, in_time, is_any, known, where
from narrows.results.receivers import limited_by_receivers
from narrows.results.schema import DROPS, MARKS, TABLES

CONFIDENCE = 0.95
"""The confidence level of the interval of first-attempt success."""

Span = tuple[float, float]


def summarise(
    tables: Mapping[str, pl.DataFrame], end_s: float, window: Span | None = None
) -> dict[str, Any]:
    """The metrics of a run that ended at ``end_s``, or of a window of it.

    Returns:
        ``dns`` and ``flows`` (None if the run had none), ``queues`` and ``links`` by link, and the
        sections of kinds of traffic; ``flags`` are sentences on what is odd about the run.
        Percentages are 0 to 100. A metric that the run does not give is None.
    """
    queries = tables["queries"]
    whole = (0.0, end_s) if window is None else window
    phase = _common(dns_phase(queries, end_s), window)
    spans: dict[str, Span] = {"run": whole}
    if phase is not None:
        spans["dns_phase"] = phase
    usual = TABLES.keys() | SAMPLES.keys()
    links = by_value(in_time(tables["links"]), "link")
    metrics = {
        **({} if window is None else {"window": _span(window)}),
        "dns": _dns(queries, tables["attempts"], end_s, window),
        "queues": {
            link: {name: _queue(part, span) for name, span in spans.items()}
            for link, part in by_value(in_time(tables["queues"]), "link").items()
        },
        "links": {
            link: {name: _link(part, span) for name, span in spans.items()}
            for link, part in links.items()
        },
        "flows": _flows(
            tables["flows"]
            if window is None or FLOW_SAMPLES.name not in tables
            else flows_within(tables["flows"], tables[FLOW_SAMPLES.name], window),
            whole[1],
        ),
        "flags": [
            *_empty(window),
            *standstills(tables["queues"]),
            *late_replies(queries, tables["attempts"]),
            *limited_by_receivers(tables["flows"], windowed=window is not None),
        ],
        **(summaries(tables, end_s, window) if tables.keys() - usual else {}),
    }
    of_groups = by_value(queries, "group")
    if len(of_groups) > 1:
        metrics["dns_groups"] = {
            group: _dns(own, tables["attempts"], end_s, window) for group, own in of_groups.items()
        }
    rounded = _rounded(metrics)
    assert isinstance(rounded, dict)
    return rounded


def in_order_of(scenario: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary whose groups have the order of the scenario's; unknown groups come last.

    Examples:
        >>> dns = [{"name": "udp"}, {"name": "dot"}]
        >>> list(in_order_of({"dns": dns}, {"dns_groups": {"dot": {}, "udp": {}}})["dns_groups"])
        ['udp', 'dot']
    """
    declared = [*(scenario.get("dns") or ()), *(scenario.get("traffic") or ())]
    place = {str(group.get("name")): number for number, group in enumerate(declared)}

    def sorted_groups(groups: Mapping[str, Any]) -> dict[str, Any]:
        return dict(sorted(groups.items(), key=lambda item: place.get(item[0], len(place))))

    ordered = dict(summary)
    for name, section in summary.items():
        if name == "dns_groups":
            ordered[name] = sorted_groups(section)
        elif isinstance(section, Mapping) and isinstance(section.get("groups"), Mapping):
            ordered[name] = {**section, "groups": sorted_groups(section["groups"])}
    return ordered


def dns_phase(queries: pl.DataFrame, end_s: float) -> Span | None:
    """The time from the first query's start until the last is done; None without queries.

    A query that was still open when the run ended keeps the phase open until then.
    """
    if queries.is_empty():
        return None
    ends = queries.get_column("end_s")
    last = end_s if ends.null_count() else floats(ends).max()
    return float(floats(queries.get_column("start_s")).min()), float(last)


def _common(phase: Span | None, window: Span | None) -> Span | None:
    """The part of a phase that lies within a window, if there is one; None if no part does."""
    if phase is None or window is None:
        return phase
    start, end = max(phase[0], window[0]), min(phase[1], window[1])
    return (start, end) if start <= end else None


def _empty(window: Span | None) -> list[str]:
    """A flag if the run ended before its window began."""
    if window is None or window[0] < window[1]:
        return []
    return [f"the run ended before the window that begins at {window[0]:g} s; it has no metrics"]


def _without_retry(done: pl.DataFrame, attempts: pl.DataFrame) -> int:
    """The number of queries answered without a failed attempt; truncated replies are no failure."""
    failed = _having(done, attempts, ~is_any(attempts, "fate", ("answered", "truncated")))
    answered = done.get_column("attempt").to_numpy() > 0
    return int(np.count_nonzero(answered & ~failed))


def _truncated(done: pl.DataFrame, attempts: pl.DataFrame) -> int:
    """How many queries got a truncated reply and were asked again over TCP."""
    truncated = is_any(attempts, "fate", ("truncated",))
    return int(np.count_nonzero(_having(done, attempts, truncated)))


def _having(queries: pl.DataFrame, attempts: pl.DataFrame, mask: Mask) -> Mask:
    """Which queries have at least one of these attempts."""
    ids = attempts.get_column("query").to_numpy()[mask]
    return np.isin(queries.get_column("query").to_numpy(), ids)


def _within_1s_percent(measured: pl.DataFrame, end_s: float) -> float | None:
    """The share of queries that were answered within a second of being asked.

    If a run left queries open, only queries that began at least a second before its end count. Of
    later ones, quick answers would count and slow ones would not.
    """
    counted = np.ones(measured.height, dtype=np.bool_)
    if measured.get_column("end_s").null_count():
        counted = row_floats(measured, "start_s") <= end_s - 1.0
    # A comparison with NaN, which stands for null, is false.
    quick = row_floats(measured, "response_ms") <= 1000.0
    answered = counted & quick & (row_floats(measured, "attempt") > 0)
    return percent(int(np.count_nonzero(answered)), int(np.count_nonzero(counted)))


def _failed(made: pl.DataFrame) -> dict[str, int]:
    """How many attempts over connections failed, by what the client saw."""
    over_connections = ~is_any(made, "transport", ("udp",))
    return {
        f"attempts_{how}": int(np.count_nonzero(over_connections & is_any(made, "fate", found)))
        for how, found in _FAILURES.items()
    }


_FAILURES = {
    "refused": ("refused",),
    "closed": ("closed",),
    "reset": ("reset",),
    # A late answer came after the attempt had timed out.
    "silent": ("timed-out", "late"),
}
"""The fates of failed attempts over connections, by the names of a scenario's key `tries`."""


def _transports(made: pl.DataFrame) -> dict[str, Any]:
    """The costs of attempts, by transport: sums over all attempts."""
    metrics = {}
    for transport, part in by_value(made, "transport").items():
        count = part.height
        metrics[transport] = {
            "attempts": count,
            "reused_percent": percent(int(part.get_column("reused").sum()), count),
            "handshake_median_ms": percentile(floats(part.get_column("handshake_ms")), 0.5),
            **{
                key: int(part.get_column(key).cast(pl.UInt64).sum())
                for key in ("packets_sent", "bytes_sent", "packets_received", "bytes_received")
            },
        }
    return metrics


def _packets_per_answer(transports: Mapping[str, Any], answered: int) -> float | None:
    """Packets in both directions per answered query; those of unanswered queries count too."""
    packets = sum(one["packets_sent"] + one["packets_received"] for one in transports.values())
    return ratio(packets, answered)


def _dns(
    queries: pl.DataFrame, attempts_made: pl.DataFrame, end_s: float, window: Span | None
) -> dict[str, Any] | None:
    phase = _common(dns_phase(queries, end_s), window)
    if phase is None:
        return None
    measured = where(queries, flags(queries, "measured"))
    done = where(measured, known(measured, "end_s"))
    total = done.height
    made = where(attempts_made, _of(attempts_made, done))
    attempts = done.get_column("attempt").to_numpy()
    most = int(done.get_column("attempts").max() or 0)  # type: ignore[arg-type]
    counts = [int(np.count_nonzero(attempts == n)) for n in range(1, most + 1)]
    unanswered = int(np.count_nonzero(attempts == 0))
    response = floats(done.get_column("response_ms"))
    rtt = floats(done.get_column("rtt_ms"))
    first = counts[0] if counts else 0
    interval: list[float] | None = None
    if total:
        low, high = wilson(first, total, CONFIDENCE)
        interval = [100.0 * low, 100.0 * high]
    ends = row_floats(queries, "end_s")
    finished = int(np.count_nonzero((ends >= phase[0]) & (ends <= phase[1])))
    transports = _transports(made)
    return {
        "queries": total,
        "unfinished": measured.height - total,
        "answered_at_attempt": counts,
        "answered_at_attempt_percent": [percent(count, total) for count in counts],
        "unanswered": unanswered,
        "unanswered_percent": percent(unanswered, total),
        "turned_away": int(np.count_nonzero(done.get_column("attempts").to_numpy() == 0)),
        "first_attempt_percent": percent(first, total),
        "without_retry_percent": percent(_without_retry(done, made), total),
        "truncated_percent": percent(_truncated(done, made), total),
        "within_1s_percent": _within_1s_percent(measured, end_s),
        **_failed(made),
        "packets_per_answer": _packets_per_answer(transports, total - unanswered),
        "transports": transports,
        "first_attempt_interval_percent": interval,
        "interval": f"Wilson score, {CONFIDENCE:.0%}, queries taken as independent",
        "response_median_ms": percentile(response, 0.5),
        "response_p95_ms": reached(response, 95),
        "response_p99_ms": reached(response, 99),
        "rtt_median_ms": percentile(rtt, 0.5),
        "late_answers": int(done.get_column("late_answers").cast(pl.Int64).sum()),
        "queries_per_s": ratio(finished, phase[1] - phase[0]),
        "dns_phase": _span(phase),
        "measured_phase": _span(_common(dns_phase(measured, end_s), window)),
    }


def _queue(samples: pl.DataFrame, span: Span) -> dict[str, Any]:
    times = floats(samples.get_column("t_s"))
    within = (times >= span[0]) & (times <= span[1])
    backlog_bytes = floats(samples.get_column("backlog_bytes"))[within]
    backlog_packets = floats(samples.get_column("backlog_packets"))[within]
    counters = _Counters(samples, times, span)
    drops = {reason: counters.change(column) for reason, column in DROPS.items()}
    marks = {reason: counters.change(column) for reason, column in MARKS.items()}
    dropped = total(drops.values())
    return {
        "start_s": span[0],
        "end_s": span[1],
        "samples": int(np.count_nonzero(within)),
        "backlog_mean_bytes": mean(backlog_bytes),
        "backlog_p5_bytes": percentile(backlog_bytes, 0.05),
        "backlog_p95_bytes": percentile(backlog_bytes, 0.95),
        "backlog_mean_packets": mean(backlog_packets),
        "backlog_p5_packets": percentile(backlog_packets, 0.05),
        "backlog_p95_packets": percentile(backlog_packets, 0.95),
        "ring_mean_bytes": mean(_known(row_floats(samples, "ring_bytes")[within])),
        "sojourn_mean_ms": _sojourn(samples, within),
        "held_mean_packets": _held(samples, times, within),
        "drops_per_s": {reason: counters.per_second(count) for reason, count in drops.items()},
        "drops_total_per_s": counters.per_second(dropped),
        "dns_drops_per_s": counters.per_second(counters.change("dropped_dns")),
        "marks_per_s": {reason: counters.per_second(count) for reason, count in marks.items()},
        "marks_total_per_s": counters.per_second(total(marks.values())),
        "loss_percent": percent(dropped, counters.change("arrived_packets")),
    }


def _link(samples: pl.DataFrame, span: Span) -> dict[str, Any]:
    counters = _Counters(samples, floats(samples.get_column("t_s")), span)
    busy = counters.per_second(counters.change("busy_s"))
    bits = counters.per_second(counters.change("bytes"))
    return {
        "start_s": span[0],
        "end_s": span[1],
        "utilisation_percent": None if busy is None else 100.0 * busy,
        "throughput_mbit_per_s": None if bits is None else bits * 8e-6,
        "packets_per_s": counters.per_second(counters.change("packets")),
        "lost_per_s": counters.per_second(counters.change("lost")),
    }


class _Counters:
    """Changes of cumulative counters over a span, interpolated at its ends."""

    def __init__(self, samples: pl.DataFrame, times: Floats, span: Span) -> None:
        self._samples = samples
        # Counters are zero when the run starts, and no sample is taken there.
        self._times = np.concatenate([[0.0], times])
        # Nothing is known about the time after the last sample, so the span ends there.
        self._ends = np.clip(np.asarray(span), 0.0, self._times[-1])
        self._length = float(self._ends[1] - self._ends[0])

    def change(self, name: str) -> float | None:
        """By how much a counter grew; None if no sample has it."""
        column = self._samples.get_column(name)
        if self._length <= 0.0 or column.null_count():
            return None
        values = np.concatenate([[0.0], floats(column)])
        low, high = np.interp(self._ends, self._times, values)
        return float(high - low)

    def per_second(self, change: float | None) -> float | None:
        """A change as a rate."""
        return None if change is None else change / self._length


def _sojourn(samples: pl.DataFrame, within: npt.NDArray[np.bool_]) -> float | None:
    """Mean over packets: each sample counts by the number of packets that left since the last."""
    left = np.diff(floats(samples.get_column("sent_packets")), prepend=0.0)
    means = samples.get_column("sojourn_mean_ms").to_numpy()
    use = within & ~np.isnan(means) & (left > 0)
    weight = math.fsum(left[use])
    return math.fsum(means[use] * left[use]) / weight if weight > 0 else None


def _held(samples: pl.DataFrame, times: Floats, within: npt.NDArray[np.bool_]) -> float | None:
    """Mean packets in queue and ring over time, by Little's law, at any phase of the samples."""
    if samples.get_column("sojourn_mean_ms").null_count() == samples.height:
        return None
    left = np.diff(floats(samples.get_column("sent_packets")), prepend=0.0)
    length = math.fsum(np.diff(times, prepend=0.0)[within])
    stayed_ms = np.nan_to_num(row_floats(samples, "sojourn_mean_ms"), nan=0.0)
    return math.fsum((stayed_ms * left)[within]) * 1e-3 / length if length > 0 else None


def _flows(flows: pl.DataFrame, end_s: float) -> dict[str, Any] | None:
    if flows.is_empty():
        return None
    metrics = _flow_group(flows, end_s)
    of_groups = by_value(flows, "group")
    metrics["groups"] = {
        group: metrics.copy() if len(of_groups) == 1 else _flow_group(own, end_s)
        for group, own in of_groups.items()
    }
    if len(of_groups) > 1:
        # Groups are not meant to get the same: they start, stop, pause and limit rates as told.
        metrics["jain_fairness"] = None
    return metrics


def _flow_group(flows: pl.DataFrame, end_s: float) -> dict[str, Any]:
    opened = where(flows, known(flows, "start_s"))
    starts = row_floats(opened, "start_s")
    ends = np.minimum(np.nan_to_num(row_floats(opened, "end_s"), nan=end_s), end_s)
    received = floats(opened.get_column("bytes_received"))
    window = None if opened.is_empty() else (float(starts.min()), float(ends.max()))
    lifetimes = ends - starts
    alive = lifetimes > 0
    rates = received[alive] * 8e-6 / lifetimes[alive]
    retransmitted = int(flows.get_column("segments_retransmitted").sum())
    sent = int(flows.get_column("segments_sent").sum())
    return {
        "flows": flows.height,
        "both_ways": _both_ways(flows),
        "ecn_flows": int(flows.get_column("ecn").sum()),
        "goodput_mbit_per_s": (
            None if window is None else ratio(math.fsum(received) * 8e-6, window[1] - window[0])
        ),
        "window": _span(window),
        "jain_fairness": jain(rates),
        "segments_sent": sent,
        "retransmitted_percent": percent(retransmitted, sent),
        "timeouts": _sum(flows.get_column("timeouts")),
        "ecn_reductions": _sum(flows.get_column("ecn_reductions")),
        "srtt_median_ms": percentile(floats(flows.get_column("srtt_ms")), 0.5),
    }


def _both_ways(flows: pl.DataFrame) -> bool:
    """Whether some connections carry data from one node to another, and others back."""
    ways = set(zip(flows.get_column("sender"), flows.get_column("receiver"), strict=True))
    return any((receiver, sender) in ways for sender, receiver in ways)


def _sum(counts: pl.Series) -> int | None:
    """A sum; None unless every row is known."""
    return None if counts.null_count() else int(counts.cast(pl.Int64).sum())


def jain(rates: Iterable[float]) -> float | None:
    """Jain's fairness index: 1 if all rates are equal, 1/n if one has all; None without traffic.

    Examples:
        >>> jain([1.0, 1.0]), jain([2.0, 0.0])
        (1.0, 0.5)
    """
    values = list(rates)
    squares = math.fsum(rate * rate for rate in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def _of(attempts: pl.DataFrame, queries: pl.DataFrame) -> Mask:
    """Which attempts are at these queries."""
    ids = queries.get_column("query").to_numpy()
    return np.isin(attempts.get_column("query").to_numpy(), ids)


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _span(span: Span | None) -> dict[str, float] | None:
    return span and {"start_s": span[0], "end_s": span[1], "length_s": span[1] - span[0]}


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    return value
