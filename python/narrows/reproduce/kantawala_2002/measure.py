"""The metrics of one run, for each group of sources and for all of them.

Goodput is what the receivers got in order, over the whole run and on average over a group's flows.
Completion is the time from a burst's start to the acknowledgement of its last byte, for bursts that
were complete by the end of the run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from narrows.reproduce.claims import Measured

if TYPE_CHECKING:
    from narrows.results import Run

SETTLED_S = 10.0
"""Seconds after which the common start of all sources no longer shows in the queue."""

CROSS = "cross"
"""The prefix of the groups of cross traffic, which are measured together."""


def measure(run: Run) -> Measured:
    """The metrics of one run.

    For each group `G` of `all`, `near`, `far`, `end` and `cross` that there is: `goodput.G` (Mb/s,
    mean over flows), `deviation.G` (Mb/s, standard deviation over flows), `jain.G`, `completion.G`
    (s, mean over bursts), `goodput_on.G` (Mb/s, a burst's bits by its completion, mean over
    bursts), `bursts.G`. Of the first monitored bottleneck: `utilisation` and `loss` (percent),
    `backlog` and `backlog_deviation` (packets; the deviation of samples from `SETTLED_S` on), and
    `bursts_hit` (percent of the bursts in which a segment was sent again; unfinished bursts count).
    `fair_share` is the mean goodput in percent of the fair share: the first bottleneck's rate by
    the number of sources.

    `ratio`, `ratio_completion`, `ratio_on`: the far group's metric over the near one's, or that of
    the end-to-end flows over the cross traffic's. `far_share`: the far (or end-to-end) flows'
    goodput in percent of the fair share; `far_share_of_mean`: of the mean over all flows.
    """
    flows = run.flows.with_columns(_merged("group"))
    seconds = run.end_s
    bursts = run.bursts.filter(pl.col("end_s").is_not_null()).join(
        flows.select("flow", "group"), on="flow"
    )
    values: dict[str, float] = {}
    groups = flows.get_column("group").unique(maintain_order=True).to_list()
    for group in dict.fromkeys(["all", *groups]):
        of_group = pl.lit(True) if group == "all" else pl.col("group") == group
        values |= _group(flows.filter(of_group), bursts.filter(of_group), seconds, group)
    link = next(iter(run.scenario["monitor"]["links"]["links"]))
    queue, use = run.summary["queues"][link]["run"], run.summary["links"][link]["run"]
    rate = _rate(run, link.partition(".")[0])
    fair = rate / len(flows) / 1e6
    values |= {
        "utilisation": float(use["utilisation_percent"]),
        "loss": float(queue["loss_percent"]),
        "backlog": float(queue["backlog_mean_packets"]),
        "backlog_deviation": _deviation(run, link),
        "bursts_hit": _bursts_hit(run),
        "fair_share": 100.0 * values["goodput.all"] / fair,
        "simulated_s": seconds,
    }
    for slow, quick in (("far", "near"), ("end", CROSS)):
        if slow in groups:
            values |= {
                "ratio": _over(values, "goodput", slow, quick),
                "ratio_on": _over(values, "goodput_on", slow, quick),
                "ratio_completion": _over(values, "completion", slow, quick),
                "far_share": 100.0 * values[f"goodput.{slow}"] / fair,
                "far_share_of_mean": 100.0 * values[f"goodput.{slow}"] / values["goodput.all"],
            }
    return Measured(values)


def _deviation(run: Run, link: str) -> float:
    settled = run.queues.filter((pl.col("link") == link) & (pl.col("t_s") >= SETTLED_S))
    backlog = settled.get_column("backlog_packets").cast(pl.Float64).to_numpy()
    return float(np.std(backlog, ddof=1)) if len(backlog) > 1 else math.nan


def _bursts_hit(run: Run) -> float:
    hit = (run.bursts.get_column("segments_retransmitted") > 0).mean()
    return 100.0 * hit if isinstance(hit, float) else math.nan


def _merged(column: str) -> pl.Expr:
    """The groups, with all cross traffic as one."""
    text = pl.col(column)
    return pl.when(text.str.starts_with(CROSS)).then(pl.lit(CROSS)).otherwise(text).alias(column)


def _group(
    flows: pl.DataFrame, bursts: pl.DataFrame, seconds: float, name: str
) -> dict[str, float]:
    goodput = flows.get_column("bytes_received").cast(pl.Float64).to_numpy() * 8e-6 / seconds
    took = (bursts.get_column("end_s") - bursts.get_column("start_s")).to_numpy()
    bits = bursts.get_column("bytes").cast(pl.Float64).to_numpy() * 8e-6
    square = float(np.sum(goodput**2))
    return {
        f"goodput.{name}": float(np.mean(goodput)),
        f"deviation.{name}": float(np.std(goodput, ddof=1)) if len(goodput) > 1 else math.nan,
        f"jain.{name}": float(np.sum(goodput)) ** 2 / (len(goodput) * square)
        if square > 0
        else math.nan,
        f"completion.{name}": float(np.mean(took)) if len(took) else math.nan,
        f"goodput_on.{name}": float(np.mean(bits / took)) if len(took) else math.nan,
        f"bursts.{name}": float(len(took)),
    }


def _over(values: dict[str, float], metric: str, upper: str, lower: str) -> float:
    below = values[f"{metric}.{lower}"]
    return values[f"{metric}.{upper}"] / below if below > 0 else math.nan


def _rate(run: Run, link: str) -> float:
    from narrows.scenario import Scenario

    (found,) = (entry for entry in run.scenario["links"] if entry["name"] == link)
    shape = {"name": "x", "duration": "1 s", "links": [found]}
    return float(Scenario.from_dict(shape).links[0].direction("forward").rate)
