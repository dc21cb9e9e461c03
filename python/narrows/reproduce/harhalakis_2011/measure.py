"""The metrics of one run: those of the paper, and those of the kernel reference.

A run has these phases: the background alone, from `SETTLED_S` to the start of DNS; the *DNS phase*,
from there to the end of the last query (the kernel reference's `dns_phase_s`); and within it, the
time in which all workers ask.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from narrows.records.numbers import Floats, row_floats
from narrows.reproduce.claims import Measured, Series
from narrows.reproduce.harhalakis_2011.published import EWMA_A, FIGURE_2_DNS_START_S
from narrows.results.schema import DROPS

if TYPE_CHECKING:
    from narrows.results import Run

QUEUE = "bottleneck.forward"
"""The congested and monitored queue: BN2 to BN1."""

SETTLED_S = 10.0
"""Seconds after which the background counts as settled."""

SETTLED_DNS_S = 5.0
"""Seconds from the start of DNS until its load counts as settled."""

SHOWN_S = 60.0
"""Length of Figure 2's curve."""

SLOT_S = 0.1
"""Length of a slot of the monitor."""

ATTEMPTS = 5

FIFO_LIMIT = 262_500
"""Bytes of the 300 ms FIFO; the metric `room` means nothing for other queues."""

REPLY_IN_QUEUE = 114
"""Bytes of a reply in the queue: 100 of IP and 14 of Ethernet."""


def measure(run: Run) -> Measured:
    """The metrics and curves of one run of one cell.

    `values`: `attempt_1` to `attempt_5` and `unanswered` (percent of the measured queries that
    ended), `first_attempt` (the same as `attempt_1`), `rtt_median_ms`; over the DNS phase
    `drops_per_s`, `marks_per_s`, `backlog_bytes`, `backlog_most_bytes` (the largest sample),
    `ring_bytes`, `utilisation` (percent) and `room` (percent of its samples in which the 300 ms
    FIFO has room for a reply); `dns_phase_s`, its length;
    `drops_before` and `drops_after` the start of DNS and `drops_rise_per_s` (per second),
    `drops_rise` (percent), `ewma_deviation` (per second), `utilisation_before` (percent);
    `slots_with_drops` (percent of the DNS phase's 100 ms), `drops_dispersion` (variance over
    mean of the drops of such a slot: 1 if they came at random, more if they come in bursts) and
    `drop_burst_s` (mean length of a burst, which is a row of such slots with drops).

    `curves`: `ewma` (s, drops/s) with DNS starting at 10 s; `cdf` (ms, share) of response times.

    Raises:
        RuntimeError: The run has no measured query that finished, or the bottleneck was not
            monitored.
    """
    dns = run.summary["dns"]
    if dns is None:
        raise RuntimeError("the run has no DNS query")
    samples = run.queues.filter(pl.col("link") == QUEUE).sort("t_s")
    busy = run.links.filter(pl.col("link") == QUEUE).sort("t_s")
    if samples.is_empty() or busy.is_empty():
        raise RuntimeError(f"{QUEUE} was not monitored")
    phase = dns["dns_phase"]
    start = float(phase["start_s"])
    times = row_floats(samples, "t_s")
    drops = sum(row_floats(samples, column) for column in DROPS.values())
    assert isinstance(drops, np.ndarray), "a sum of columns is one"
    within = (times >= start) & (times <= phase["end_s"])
    values = {
        **_attempts(run),
        **_queue(run.summary["queues"][QUEUE]["dns_phase"]),
        "dns_phase_s": float(phase["length_s"]),
        "utilisation": _number(run.summary["links"][QUEUE]["dns_phase"]["utilisation_percent"]),
        "utilisation_before": 100.0
        * slope(row_floats(busy, "t_s"), row_floats(busy, "busy_s"), SETTLED_S, start),
        "room": 100.0
        * float(
            np.mean(row_floats(samples, "backlog_bytes")[within] <= FIFO_LIMIT - REPLY_IN_QUEUE)
        ),
    }
    slots = np.diff(drops, prepend=0.0)[within]
    values |= {
        "backlog_most_bytes": float(np.max(row_floats(samples, "backlog_bytes")[within])),
        "drop_burst_s": SLOT_S * _mean_length(slots > 0),
        "slots_with_drops": 100.0 * float(np.mean(slots > 0)),
        "drops_dispersion": float(np.var(slots, ddof=1) / np.mean(slots))
        if len(slots) > 1 and slots.any()
        else math.nan,
    }
    ewma = drop_rate_ewma(times.tolist(), np.diff(drops, prepend=0.0).tolist())
    settled = [value for t, value in zip(*ewma, strict=True) if SETTLED_S <= t < start]
    before = slope(times, drops, SETTLED_S, start)
    after = slope(times, drops, start + SETTLED_DNS_S, _first_worker_done(run))
    values |= {
        "drops_before": before,
        "drops_after": after,
        "drops_rise_per_s": after - before,
        "drops_rise": 100.0 * (after - before) / before if before > 0 else math.nan,
        "ewma_deviation": statistics.stdev(settled) if len(settled) > 1 else math.nan,
    }
    return Measured(
        values, {"ewma": _shown(ewma, FIGURE_2_DNS_START_S - start), "cdf": _distribution(run)}
    )


def drop_rate_ewma(times_s: list[float], drops: list[float]) -> Series:
    """Figure 2's curve from the drops of 100 ms slots, in drops per second.

    It is `V(n) = a V(n-1) + (1 - a) P(n)` with `P(n)` ten times the drops of slot n.

    `times_s` are the ends of the slots. The average starts at zero, as when a monitor is started.
    """
    value = 0.0
    curve = []
    for count in drops:
        value = EWMA_A * value + (1.0 - EWMA_A) * count * 10.0
        curve.append(value)
    return times_s, curve


def _mean_length(inside: npt.NDArray[np.bool_]) -> float:
    """Mean length of the rows of neighbours that are true; NaN if none is."""
    edges = np.diff(inside.astype(np.int8), prepend=0, append=0)
    rows = int(np.sum(edges == 1))
    return float(np.sum(inside)) / rows if rows else math.nan


def slope(times: Floats, cumulative: Floats, low: float, high: float) -> float:
    """Change of a counter per second from `low` to `high`; NaN with fewer than two samples."""
    (inside,) = np.nonzero((times >= low) & (times <= high))
    if len(inside) < 2:
        return math.nan
    first, last = inside[0], inside[-1]
    return float((cumulative[last] - cumulative[first]) / (times[last] - times[first]))


def _attempts(run: Run) -> dict[str, float]:
    done = run.queries.filter(pl.col("end_s").is_not_null() & pl.col("measured"))
    if done.is_empty():
        raise RuntimeError("the run has no finished DNS query that is measured")
    attempt = done.get_column("attempt").to_numpy()
    shares = [100.0 * float(np.mean(attempt == number)) for number in range(ATTEMPTS + 1)]
    return {
        **{f"attempt_{number}": shares[number] for number in range(1, ATTEMPTS + 1)},
        "first_attempt": shares[1],
        "unanswered": shares[0],
        "rtt_median_ms": _number(done.get_column("rtt_ms").median()),
    }


def _queue(phase: dict[str, Any]) -> dict[str, float]:
    return {
        "drops_per_s": _number(phase["drops_total_per_s"]),
        "marks_per_s": _number(phase["marks_total_per_s"]),
        "backlog_bytes": _number(phase["backlog_mean_bytes"]),
        "ring_bytes": _number(phase["ring_mean_bytes"]),
    }


def _first_worker_done(run: Run) -> float:
    if run.stopped != "dns-done":
        return run.end_s
    ends = run.queries.group_by("worker").agg(pl.col("end_s").max()).get_column("end_s")
    return _number(ends.min())


def _shown(curve: Series, shift: float) -> Series:
    moved = [(t + shift, value) for t, value in zip(*curve, strict=True)]
    shown = [(t, value) for t, value in moved if 0.0 <= t <= SHOWN_S]
    return [t for t, _ in shown], [value for _, value in shown]


def _distribution(run: Run, points: int = 400) -> Series:
    answered = run.queries.filter(pl.col("measured") & pl.col("response_ms").is_not_null())
    if answered.is_empty():
        return [], []
    shares = (np.arange(points) + 0.5) / points
    return np.quantile(row_floats(answered, "response_ms"), shares).tolist(), shares.tolist()


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
