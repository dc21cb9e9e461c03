"""What a link carries over time, against its rate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from narrows.records.plotted import Counter, Declaration, Points, Series
from narrows.report.plots.over_time import TIME, events, from_zero
from narrows.report.source import QueueFacts, queue_facts, sampled_at
from narrows.results import Run


def utilisation(runs: Mapping[str, Run], link: str) -> Declaration:
    """Throughput of a link between samples, framing included, and what the link could carry.

    What it could carry is its rate with its changes, or what its trace offered between samples.

    Args:
        runs: Runs by label.
        link: A link that each of them sampled.
    """
    every = list(runs.values())
    facts = queue_facts(every[0], link)
    return Declaration(
        f"throughput-{link}",
        f"Throughput of {link}",
        TIME,
        from_zero("throughput (Mbit/s)"),
        (
            Series(
                "carried",
                "links",
                "t_s",
                ("*", 8e-6, "bytes"),
                {"link": link},
                "before",
                "blue",
                change=Counter(),
            ),
            *(() if facts is None else (_could(every[0], link, facts),)),
        ),
        events(every),
        height=3.0,
    )


def _could(run: Run, link: str, facts: QueueFacts) -> Points:
    if facts.opportunities_ms is not None:
        times = np.concatenate([[0.0], sampled_at(run.links, link)])
        rates = np.diff(facts.offered(times)) * 8e-6 / np.diff(times)
        held = np.concatenate([rates[:1], rates])
        name = "offered by the trace"
        return Points(name, times.tolist(), held.tolist(), "before", "ink", 1.1, dash=True)
    changes = [(time, rate * 1e-6) for time, rate in facts.rates if time < run.end_s]
    last = changes[-1][1]
    return Points(
        "rate",
        [*(time for time, _ in changes), "end"],
        [*(rate for _, rate in changes), last],
        "after",
        "ink",
        1.0,
        dash=True,
        margin=f"rate\n{last:g} Mbit/s",
    )
