"""How long DNS queries take: the distribution of response times on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.records.plotted import SHARES, Axis, Declaration, Mark, Series
from narrows.report.drawing import CYCLE
from narrows.report.source import retry_marks
from narrows.results import Run


def response_cdf(runs: Mapping[str, Run], group: str | None = None) -> Declaration:
    """Share of the measured queries that were answered within a time.

    Unanswered queries count as never answered, so a curve with any ends below 100 %. Queries that
    were open when the run ended count for as long as they waited. A single run has a curve for each
    DNS group. Thin vertical lines mark attempts 2, 3, ... of the runs' retry schedule.

    Args:
        runs: Runs by label.
        group: Show only this DNS group's queries.
    """
    every = list(runs.values())
    asked = every[0].queries.filter("measured").get_column("group").n_unique()
    apart = len(runs) == 1 and group is None and 1 < asked <= 2 * len(CYCLE)
    series = Series(
        "{group}" if apart else next(iter(runs)),
        "queries",
        "response_ms",
        where={"measured": True} | ({} if group is None else {"group": group}),
        shape="cdf",
        each=("group",) if apart else (),
        open=("end_s", ("*", 1e3, ("-", ("end",), "start_s"))),
    )
    whose = "" if group is None else f" of {group}"
    return Declaration(
        "response-cdf",
        f"DNS response time{whose}, from the first attempt to the answer",
        Axis("response time", log="auto", mixed=True),
        Axis("queries answered\nwithin this time (%)", ends=SHARES),
        (series,),
        tuple(
            Mark("x", 1e3 * moment, words, upright=True, inside=True)
            for moment, words in retry_marks(every)
        ),
        height=3.6,
    )
