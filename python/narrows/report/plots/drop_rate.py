"""Drops and marks per second over time, smoothed as in Figure 2 of Harhalakis et al. 2011."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.records.plotted import Counter, Declaration, Series
from narrows.report.plots.over_time import TIME, events, from_zero, total
from narrows.results import Run
from narrows.results.schema import DROPS, MARKS

SLOT_S = 0.1
"""The paper counts drops in slots of 100 ms."""

KEPT = 0.9
"""The paper's a: the weight of the old average."""


def drop_rate(runs: Mapping[str, Run], link: str) -> Declaration:
    """Smoothed drops per second of each run; for a single run, its marks too.

    Args:
        runs: Runs by label.
        link: A link whose queue each of them sampled.
    """
    every = list(runs.values())
    smooth = Counter(slot_s=SLOT_S, kept=KEPT)
    of_link = {"link": link}
    return Declaration(
        f"drops-{link}",
        f"Drops at {link}" if len(runs) > 1 else f"Drops and marks at {link}",
        TIME,
        from_zero("smoothed over\nabout 1 s (packets/s)"),
        (
            Series(
                "drops", "queues", "t_s", total(DROPS), of_link, color="vermilion", change=smooth
            ),
            Series(
                "marks",
                "queues",
                "t_s",
                total(MARKS),
                of_link,
                color="blue",
                change=smooth,
                omit="zero",
                several=False,
            ),
        ),
        events(every),
        height=3.2,
    )
