"""The metrics of a run: rates and their ratio, delays of each class, utilisation, short flows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import polars as pl

from narrows.results import Run
from narrows.suites.measuring import delays, goodputs, jain, streams

Found = dict[str, float | None]

MEASURED = f"{__name__}:measure"
LINK = "bottleneck.forward"
L4S = ("ect0", "ect1", "ce")
CLASSIC = ("not-ect",)


def measure(run: Run) -> Mapping[str, Found]:
    """The section `suite` of a run's summary."""
    rates = goodputs(run)
    found: Found = {"utilisation_percent": run.summary["links"][LINK]["run"]["utilisation_percent"]}
    for name, fields in (("l4s", L4S), ("classic", CLASSIC)):
        own = delays(run, LINK, fields)
        found |= {
            f"delay_{name}": own["delay_mean"],
            f"delay_p99_{name}": own["delay_p99"],
            f"marks_{name}_percent": own["marks_percent"],
            f"loss_{name}_percent": own["loss_percent"],
        }
    counts = {each["name"]: each.get("connections", 1) for each in run.scenario["traffic"]}
    each_rate = {name: rate / counts[name] for name, rate in rates.items()}
    found |= {f"rate_{name}": rate for name, rate in (each_rate | streams(run)).items()}
    for one, other in (("l4s", "classic"), ("near", "far")):
        if each_rate.get(one) is not None and each_rate.get(other):
            found["ratio"] = each_rate[one] / each_rate[other]
            found["jain"] = jain([each_rate[one], each_rate[other]])
    return {"suite": {**found, **_short(run)}}


def _short(run: Run) -> Found:
    """The completion times of short flows that began within the window."""
    if "bursts" not in run.tables or run.window is None:
        return {}
    start, end = run.window
    rows = run.table("bursts").filter(pl.col("start_s").is_between(start, end, closed="left"))
    times = (rows["end_s"] - rows["start_s"]).drop_nulls()
    if times.is_empty():
        return {}
    logs = [math.log(time) for time in times]
    return {
        # The mean of ccafct, which long flows do not dominate.
        "fct_geometric": 1e3 * math.exp(math.fsum(logs) / len(logs)),
        "fct_p95": 1e3 * float(times.quantile(0.95, "higher") or 0.0),
        "unfinished_percent": 100.0 * (1.0 - len(times) / rows.height),
    }
