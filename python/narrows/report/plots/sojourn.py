"""Time that packets spend in a queue and the ring below it, over time."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.records.plotted import Declaration, Mark, Series
from narrows.report.plots.over_time import TIME, events, from_zero
from narrows.report.source import queue_facts
from narrows.results import Run


def sojourn(runs: Mapping[str, Run], link: str) -> Declaration:
    """Mean sojourn of each sampling interval; for a single run, the longest and the target too.

    Args:
        runs: Runs by label.
        link: A link whose queue each of them sampled.
    """
    every = list(runs.values())
    facts = queue_facts(every[0], link) if len(every) == 1 else None
    target = (
        (Mark("y", facts.target_ms, f"target\n{facts.target_ms:g} ms", "ink", dash=True),)
        if facts is not None and facts.target_ms is not None
        else ()
    )
    of_link = {"link": link}
    return Declaration(
        f"sojourn-{link}",
        f"Time in queue and ring at {link}",
        TIME,
        from_zero("time in queue (ms)"),
        (
            Series(
                "longest",
                "queues",
                "t_s",
                "sojourn_max_ms",
                of_link,
                "before",
                "sky",
                width=0.8,
                several=False,
            ),
            Series(
                "mean of the packets that left",
                "queues",
                "t_s",
                "sojourn_mean_ms",
                of_link,
                "before",
                "blue",
            ),
        ),
        (*target, *events(every)),
        height=3.2,
    )
