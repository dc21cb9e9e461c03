"""The metrics of one run: buffer, delay, its variation, drops, utilisation, and the CPU.

Averages over time begin when the load begins, because the paper's network does nothing before that.
Curves are running averages if the paper says "average".

A kernel tells neither how long packets waited nor RED's average. Both follow from its samples of
the queue, ten a second: a FIFO at a constant rate delays a packet by what is in front of it, and
the average moves with each packet that arrives. In return, a guest kernel measures the processor
time at router A, for which the simulator has a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from narrows.records.numbers import Floats, row_floats
from narrows.reproduce.claims import Measured, Series
from narrows.reproduce.dana_2010.cells import WEIGHT
from narrows.results.processor import processor_load
from narrows.results.router_cpu import COSTS, router_cpu
from narrows.scenario.amounts import DataRate, DataSize

if TYPE_CHECKING:
    from narrows.results import Run

QUEUE = "ds1.forward"
RETURNING = "ds1.backward"
ROUTER = "A"
LINK, _, DIRECTION = QUEUE.partition(".")

LOADED_S = 100.0
"""When the load begins, in seconds."""
EARLY_S = 200.0
"""The end of the early part: the paper's first minutes of load."""
LATE_S = 480.0
"""The beginning of the late part: the last two minutes."""
FULL_S, BACK_OFF_S = 156.0, 192.0
"""When the paper's Drop Tail is full, and when its senders back off."""
SECOND_MINUTE_S = 120.0
"""When the paper's RED starts to drop, and its Drop Tail does not yet."""
AROUND_S = 15.0
"""Seconds before and after the first drop for which the processor's load is taken."""

COST_VARIANTS = {
    "": COSTS,
    "_drop10": COSTS.scaled(drop=10.0),
    "_drop0": COSTS.scaled(drop=0.0),
    "_average10": COSTS.scaled(average=10.0),
}


def measure(run: Run) -> Measured:
    """The metrics and curves of one run.

    `values`: `full_s` (when the queue first overflowed; NaN: never), `first_drop_s`, `average_s`
    (when RED's average passed its minimum threshold); `buffer` (packets, mean), `buffer_full` (the
    same from 156 to 192 s), `buffer_deviation` (of its means over a second), `buffer_low` (the
    lowest of these in the minute after 192 s); `delay`, `delay_early`, `delay_late` (ms, means);
    `variation` (ms squared: variance of the delay about its mean in that part) and `jitter` (ms:
    mean change between samples), each also `_early` and `_late`; `drops`, `marks`; `utilisation`
    (percent); `cpu_before` and `cpu_after` the first drop (percent; with other costs under a
    suffix, where it is a model), `cpu_second` (from the second minute to 156 s) and
    `cpu_late` (NaN: a kernel without a meter); `drops_follow_share` (correlation, over connections,
    of retransmissions with what the receiver got).

    `curves`, against seconds: `buffer` (packets), `delay` and `variation` (running averages, ms and
    ms squared), `drops` (packets a second), `utilisation` (percent), `cpu` (percent).

    Raises:
        RuntimeError: The queue was not monitored.
    """
    samples = run.queues.filter(pl.col("link") == QUEUE).sort("t_s")
    busy = run.links.filter(pl.col("link") == QUEUE).sort("t_s")
    if samples.is_empty() or busy.is_empty():
        raise RuntimeError(f"{QUEUE} was not monitored")
    times = row_floats(samples, "t_s")
    backlog = row_floats(samples, "backlog_packets")
    delay = _delays(run, samples)
    sent = np.diff(row_floats(samples, "sent_packets"), prepend=0.0)
    drops = sum(
        (row_floats(samples, f"dropped_{why}") for why in ("overflow", "early", "forced")),
        np.zeros(len(times)),
    )
    marks = row_floats(samples, "marked_early") + row_floats(samples, "marked_forced")
    parts = {
        "": times >= LOADED_S,
        "_early": (times >= LOADED_S) & (times < EARLY_S),
        "_late": times >= LATE_S,
    }
    first_drop = _first(times, drops > 0)
    values = {
        "full_s": _first(times, row_floats(samples, "dropped_overflow") > 0),
        "first_drop_s": first_drop,
        "average_s": _average_s(run, samples),
        "drops": float(drops[-1]),
        "marks": float(marks[-1]),
        "buffer": float(np.mean(backlog[parts[""]])),
        "buffer_full": float(np.mean(backlog[(times >= FULL_S) & (times < BACK_OFF_S)])),
        "buffer_deviation": _swings(times, backlog),
        "buffer_low": _lowest(times, backlog),
        "drops_follow_share": _drops_follow_share(run),
        "utilisation": 100.0 * _slope(busy, LOADED_S, run.end_s),
    }
    for suffix, part in parts.items():
        mean, variance = _weighted(delay[part], sent[part])
        values[f"delay{suffix}"] = mean
        values[f"variation{suffix}"] = variance
        changes = np.abs(np.diff(delay[part]))
        kept = changes[~np.isnan(changes)]
        values[f"jitter{suffix}"] = float(np.mean(kept)) if len(kept) else math.nan
    loads = _loads(run)
    for suffix, (ends, load) in loads.items():
        before = (ends > first_drop - AROUND_S) & (ends <= first_drop)
        after = (ends > first_drop) & (ends <= first_drop + AROUND_S)
        values[f"cpu_before{suffix}"] = _mean(load[before])
        values[f"cpu_after{suffix}"] = _mean(load[after])
        values[f"cpu_second{suffix}"] = _mean(load[(ends > SECOND_MINUTE_S) & (ends <= FULL_S)])
        values[f"cpu_late{suffix}"] = _mean(load[ends >= LATE_S])
    ends, load = loads[""]
    seconds, slow = _averages(times, delay, sent)
    curves: dict[str, Series] = {
        "buffer": _each_second(times, backlog),
        "delay": (seconds, slow[0]),
        "variation": (seconds, slow[1]),
        "drops": _rate(times, drops),
        "utilisation": _utilisation(busy),
        "cpu": (ends.tolist(), load.tolist()),
    }
    return Measured(values, curves)


def _link(run: Run) -> Mapping[str, Any]:
    """The DS1 link in the run's scenario."""
    found: Mapping[str, Any]
    (found,) = (link for link in run.scenario["links"] if link["name"] == LINK)
    return found


def _delays(run: Run, samples: pl.DataFrame) -> Floats:
    """The delay of packets at each sample, in milliseconds."""
    recorded = row_floats(samples, "sojourn_mean_ms")
    if not np.isnan(recorded).all():
        return recorded
    return row_floats(samples, "backlog_bytes") * 8e3 / DataRate(_link(run)["rate"])


def _average_s(run: Run, samples: pl.DataFrame) -> float:
    """When RED's average passed the minimum threshold of the run's scenario; NaN without RED."""
    queue = _link(run)[DIRECTION]["queue"]
    if not queue["kind"].startswith("red"):
        return math.nan
    minimum, recorded = queue["min"], row_floats(samples, "average_packets")
    if queue["kind"] == "red":
        # Linux's RED counts bytes; that of the paper counts packets.
        packet_bytes = DataSize(queue["avpkt"])
        minimum = DataSize(minimum) / packet_bytes
        recorded = row_floats(samples, "average_bytes") / packet_bytes
    return _first(row_floats(samples, "t_s"), _averages_of_red(samples, recorded) > minimum)


def _averages_of_red(samples: pl.DataFrame, recorded: Floats) -> Floats:
    """RED's average in packets, from the table or, failing that, computed from the samples."""
    if not np.isnan(recorded).all():
        return recorded
    arrived = np.diff(row_floats(samples, "arrived_packets"), prepend=0.0)
    found, average = [], 0.0
    pairs = zip(row_floats(samples, "backlog_packets"), arrived, strict=True)
    for backlog, packets in pairs:
        average += (1.0 - (1.0 - WEIGHT) ** packets) * (backlog - average)
        found.append(average)
    return np.array(found)


def _loads(run: Run) -> dict[str, tuple[Floats, Floats]]:
    """The processor's load at router A, measured, or from the model and its variants."""
    if run.backend == "sim":
        return {
            suffix: router_cpu(run, QUEUE, RETURNING, costs)
            for suffix, costs in COST_VARIANTS.items()
        }
    measured = run.tables.get("processor")
    if measured is None or measured.is_empty():
        return {"": (np.array([]), np.array([]))}
    return {"": processor_load(measured, ROUTER, run.end_s)}


def _first(times: Floats, happened: npt.NDArray[np.bool_]) -> float:
    return float(times[np.argmax(happened)]) if happened.any() else math.nan


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _weighted(delay: Floats, sent: Floats) -> tuple[float, float]:
    """Mean and variance over packets, from each sample's mean and number of packets."""
    kept = ~np.isnan(delay) & (sent > 0)
    if not kept.any():
        return math.nan, math.nan
    mean = float(np.average(delay[kept], weights=sent[kept]))
    return mean, float(np.average((delay[kept] - mean) ** 2, weights=sent[kept]))


def _lowest(times: Floats, backlog: Floats) -> float:
    ends, means = _each_second(times, backlog)
    within = [m for t, m in zip(ends, means, strict=True) if BACK_OFF_S < t <= BACK_OFF_S + 60.0]
    return min(within, default=math.nan)


def _swings(times: Floats, backlog: Floats) -> float:
    ends, means = _each_second(times, backlog)
    return float(np.std([m for t, m in zip(ends, means, strict=True) if t > LOADED_S], ddof=1))


def _drops_follow_share(run: Run) -> float:
    share = row_floats(run.flows, "bytes_received")
    again = row_floats(run.flows, "segments_retransmitted")
    if len(share) < 3 or np.std(share) == 0 or np.std(again) == 0:
        return math.nan
    return float(np.corrcoef(share, again)[0, 1])


def _each_second(times: Floats, values: Floats) -> Series:
    whole = np.ceil(times - 1e-9)
    ends = np.unique(whole)
    return ends.tolist(), [float(np.mean(values[whole == end])) for end in ends]


def _averages(
    times: Floats, delay: Floats, sent: Floats
) -> tuple[list[float], tuple[list[float], list[float]]]:
    """Running mean and variance of the delay over all packets so far, at each second."""
    kept = ~np.isnan(delay) & (np.cumsum(sent) > 0)
    at, value, weight = times[kept], delay[kept], sent[kept]
    count = np.cumsum(weight)
    mean = np.cumsum(weight * value) / count
    variance = np.maximum(0.0, np.cumsum(weight * value**2) / count - mean**2)
    ends = np.arange(math.ceil(float(at[0])), math.floor(float(times[-1])) + 1.0)
    index = np.searchsorted(at, ends + 1e-9) - 1
    return ends.tolist(), (mean[index].tolist(), variance[index].tolist())


def _rate(times: Floats, counter: Floats) -> Series:
    ends = np.arange(1.0, math.floor(float(times[-1])) + 1.0)
    return ends.tolist(), np.diff(np.interp(ends, times, counter), prepend=0.0).tolist()


def _utilisation(busy: pl.DataFrame) -> Series:
    times, spent = row_floats(busy, "t_s"), row_floats(busy, "busy_s")
    ends = np.arange(1.0, math.floor(float(times[-1])) + 1.0)
    return ends.tolist(), (100.0 * np.diff(np.interp(ends, times, spent), prepend=0.0)).tolist()


def _slope(busy: pl.DataFrame, low: float, high: float) -> float:
    times, spent = row_floats(busy, "t_s"), row_floats(busy, "busy_s")
    first, last = np.interp([low, high], times, spent)
    return float((last - first) / (high - low))
