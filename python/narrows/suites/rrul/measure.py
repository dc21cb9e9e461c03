"""The metrics of a run of one of Flent's tests."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import polars as pl

from narrows.results import Run
from narrows.suites.measuring import delays, goodputs, jain

Found = dict[str, float | None]

MEASURED = f"{__name__}:measure"


def measure(run: Run) -> Mapping[str, Found]:
    """The section `suite` of a run's summary."""
    rates = goodputs(run)
    found: Found = {}
    for direction in ("up", "down"):
        own = {name: rate for name, rate in rates.items() if name.startswith(f"{direction}-")}
        if own:
            found[f"{direction}_sum"] = sum(own.values())
            found[f"{direction}_jain"] = jain(list(own.values()))
            found |= {f"{direction}_{name.partition('-')[2]}": rate for name, rate in own.items()}
    return {"suite": {**found, **_probes(run), **_stream(run), **_queues(run)}}


def _probes(run: Run) -> Found:
    if "pings" not in run.tables or run.window is None:
        return {}
    start, end = run.window
    rows = run.table("pings").filter(pl.col("sent_s").is_between(start, end, closed="left"))
    answered = rows.filter(fate="answered")
    if answered.is_empty():
        return {}
    of_groups = answered.group_by("group").agg(pl.mean("rtt_ms"))
    means = {f"ping_{name.replace('-', '_')}": mean for name, mean in of_groups.iter_rows()}
    rtts = answered["rtt_ms"]
    ended = rows.filter(pl.col("fate") != "pending").height
    return {
        # Flent's average is of its series.
        "ping_avg": fmean(means.values()),
        "ping_p95": rtts.quantile(0.95, "higher"),
        "ping_p99": rtts.quantile(0.99, "higher"),
        "ping_lost_percent": 100.0 * (ended - answered.height) / ended,
        **means,
    }


def _stream(run: Run) -> Found:
    stream = (run.summary.get("streams") or {}) if "streams" in run.tables else {}
    names = {
        "delay_mean_ms": "voip_delay",
        "jitter_mean_ms": "voip_jitter",
        "lost_percent": "voip_lost_percent",
    }
    return {to: stream[key] for key, to in names.items() if key in stream}


def _queues(run: Run) -> Found:
    found: Found = {}
    for direction, name in (("forward", "up"), ("backward", "down")):
        own = delays(run, f"bottleneck.{direction}")
        found |= {f"{name}_delay": own["delay_mean"], f"{name}_loss_percent": own["loss_percent"]}
    return found
