"""What is measured of one run: the paper's figures, and those that the kernel reference has.

Phases of a run: the background alone from `SETTLED_S` to the start of DNS; the *DNS phase* from
there to the end of the last query (the kernel reference's `dns_phase_s`); within it, the time
while all workers ask.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from narrows.reproduce.claims import Measured, Series
from narrows.reproduce.harhalakis_2011.published import EWMA_A, FIGURE_2_DNS_START_S

if TYPE_CHECKING:
    from narrows.results import Run

QUEUE = "bottleneck.forward"
"""The congested and monitored queue: BN2 to BN1."""

SETTLED_S = 10.0
"""From here on the background counts as settled."""

SETTLED_DNS_S = 5.0
"""So long after the start of DNS, its load counts as settled."""

RATE_BIT_PER_S = 10e6

ATTEMPTS = 5


def measure(run: Run) -> Measured:
    """The figures and curves of one run of one cell.

    `values`: `attempt_1` to `attempt_5` and `unanswered` (percent of the measured queries),
    `first_attempt` (the same as `attempt_1`), `rtt_median_ms`, `late` (percent of the
    queries that had a late answer), `dns_phase_s`, `drops_per_s`, `marks_per_s`,
    `backlog_bytes`, `utilisation` (percent) over the DNS phase; `drops_before`,
    `drops_after` (per second), `drops_rise` (percent), `ewma_deviation` (per second),
    `utilisation_before` (percent); `room` (percent of the samples of the DNS phase in which
    the 300 ms FIFO has room for a reply). `curves`: `ewma` (s, drops/s) with DNS starting at
    10 s; `cdf` (ms, share) of response times.
    """
    start, end, tail = _dns_phase(run)
    queue = run.queues.filter(pl.col("link") == QUEUE).sort("t_s")
    link = run.links.filter(pl.col("link") == QUEUE).sort("t_s")
    values = _queries(run)
    values["dns_phase_s"] = end - start
    values.update(_queue(queue, start, end))
    values["utilisation"] = _utilisation(link, start, end)
    values["utilisation_before"] = _utilisation(link, SETTLED_S, start)
    before = _rate(queue, "drops", SETTLED_S, start)
    after = _rate(queue, "drops", start + SETTLED_DNS_S, tail)
    ewma = drop_rate_ewma(*_slots(queue))
    values["drops_before"] = before
    values["drops_after"] = after
    values["drops_rise"] = 100.0 * (after - before) / before if before > 0 else math.nan
    values["drops_rise_per_s"] = after - before
    values["ewma_deviation"] = _deviation(
        [v for t, v in zip(*ewma, strict=True) if SETTLED_S <= t < start]
    )
    shift = FIGURE_2_DNS_START_S - start
    shown = [(t + shift, v) for t, v in zip(*ewma, strict=True) if 0.0 <= t + shift <= 60.0]
    return Measured(
        values,
        {"ewma": ([t for t, _ in shown], [v for _, v in shown]), "cdf": _cdf(run)},
    )


def drop_rate_ewma(times_s: list[float], drops: list[float]) -> Series:
    """Figure 2's curve from the drops of 100 ms slots, in drops per second.

    It is `V(n) = a V(n-1) + (1 - a) P(n)` with `P(n)` ten times the drops of slot n.

    `times_s` are the ends of the slots. The average starts at zero, as a monitor does that is
    started.
    """
    value = 0.0
    curve = []
    for count in drops:
        value = EWMA_A * value + (1.0 - EWMA_A) * count * 10.0
        curve.append(value)
    return times_s, curve


def _dns_phase(run: Run) -> tuple[float, float, float]:
    """Start and end of the DNS phase, and when the first worker is done."""
    ends = run.queries.group_by("worker").agg(pl.col("end_s").max()).get_column("end_s")
    start = run.queries.get_column("start_s").min()
    last, first = ends.max(), ends.min()
    if not isinstance(start, float) or not isinstance(last, float) or not isinstance(first, float):
        raise RuntimeError("the run has no finished DNS query")
    return start, last, first


def _queries(run: Run) -> dict[str, float]:
    measured = run.queries.filter(pl.col("measured"))
    total = measured.height
    if total == 0:
        raise RuntimeError("the run has no measured DNS query")
    shares = {
        f"attempt_{n}": 100.0 * measured.filter(pl.col("attempt") == n).height / total
        for n in range(1, ATTEMPTS + 1)
    }
    return {
        **shares,
        "first_attempt": shares["attempt_1"],
        "unanswered": 100.0 * measured.filter(pl.col("attempt") == 0).height / total,
        "late": 100.0 * measured.filter(pl.col("late_answers") > 0).height / total,
        "rtt_median_ms": _number(measured.get_column("rtt_ms").median()),
    }


def _queue(queue: pl.DataFrame, start: float, end: float) -> dict[str, float]:
    phase = queue.filter(pl.col("t_s").is_between(start, end))
    backlog = phase.get_column("backlog_bytes")
    return {
        "drops_per_s": _rate(queue, "drops", start, end),
        "marks_per_s": _rate(queue, "marks", start, end),
        "backlog_bytes": _number(backlog.mean()),
        "ring_bytes": _number(phase.get_column("ring_bytes").mean()),
        "room": 100.0 * _number((backlog <= FIFO_LIMIT - REPLY_IN_QUEUE).mean()),
    }


FIFO_LIMIT = 262_500
"""Bytes of the 300 ms FIFO; `room` means nothing for other queues."""

REPLY_IN_QUEUE = 114
"""Bytes of a reply in the queue: 100 of IP and 14 of Ethernet."""

_COUNTERS = {
    "drops": ("dropped_overflow", "dropped_early", "dropped_forced"),
    "marks": ("marked_early", "marked_forced"),
}


def _cumulative(queue: pl.DataFrame, what: str) -> list[float]:
    total = pl.sum_horizontal([pl.col(name).cast(pl.Float64) for name in _COUNTERS[what]])
    return [float(value) for value in queue.select(total.alias("total")).get_column("total")]


def _rate(queue: pl.DataFrame, what: str, low: float, high: float) -> float:
    """Drops or marks per second between the samples next to `low` and `high`."""
    times = queue.get_column("t_s").to_list()
    return _slope(times, _cumulative(queue, what), low, high)


def _utilisation(link: pl.DataFrame, low: float, high: float) -> float:
    """Percent of the time between `low` and `high` in which the link transmitted."""
    return 100.0 * _slope(
        link.get_column("t_s").to_list(), link.get_column("busy_s").to_list(), low, high
    )


def _slope(times: list[float], cumulative: list[float], low: float, high: float) -> float:
    inside = [i for i, t in enumerate(times) if low <= t <= high]
    if len(inside) < 2:
        return math.nan
    first, last = inside[0], inside[-1]
    return (cumulative[last] - cumulative[first]) / (times[last] - times[first])


def _slots(queue: pl.DataFrame) -> tuple[list[float], list[float]]:
    times = queue.get_column("t_s").to_list()
    total = _cumulative(queue, "drops")
    return times[1:], [later - earlier for earlier, later in pairwise(total)]


def _deviation(values: list[float]) -> float:
    if len(values) < 2:
        return math.nan
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _cdf(run: Run, points: int = 400) -> Series:
    times = run.queries.filter(pl.col("measured")).get_column("response_ms").drop_nulls().sort()
    if times.is_empty():
        return [], []
    shares = [(n + 0.5) / points for n in range(points)]
    return [_number(times.quantile(share)) for share in shares], shares


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
