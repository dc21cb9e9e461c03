"""The claims under two versions of ns-2's TCP, next to the base.

The paper does not say which ns-2 it used. The base is neither: it has the timeouts of the ns-2
since 2006, and no limited transmit, as in August 2001. README.md lists the settings of each.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from narrows.reproduce.claims import Claim, Verdict
from narrows.reproduce.kantawala_2002.cells import HOPS, ROUND_TRIPS, Topology, name
from narrows.reproduce.kantawala_2002.choices import VERSIONS
from narrows.reproduce.kantawala_2002.queues import QUEUES, TITLES
from narrows.reproduce.measurements import BASE, Measurements, Table
from narrows.reproduce.output import interval_text
from narrows.reproduce.statistics import Interval, t_interval

COLUMNS = (BASE, *(choice.name for choice in VERSIONS))

TITLE = "What holds in the base, and with the TCP of two versions of ns-2"


def versions(outcome: Measurements, claims: Sequence[Claim]) -> Table | None:
    """Every claim in the base and under each version, from the same cells and seeds.

    `None` if a version was not run.
    """
    if not _were_run(outcome):
        return None
    shown, found = [], []
    for claim in claims:
        intervals = [
            outcome.claim_interval(claim, like=VERSIONS[0]),
            *(outcome.claim_interval(claim, choice) for choice in VERSIONS),
        ]
        verdicts = [claim.test(interval) for interval in intervals]
        if Verdict.NOT_TESTED in verdicts:
            continue
        unit = f", {claim.unit}" if claim.unit else ""
        cells = [
            f"{verdict}: {interval_text(interval)}"
            for verdict, interval in zip(verdicts, intervals, strict=True)
        ]
        shown.append([claim.id, f"{claim.metric}{unit}", *cells])
        found.append(verdicts)
    if not shown:
        return None
    counts = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{verdict} {column.count(verdict)}" for verdict in Verdict if verdict in column
        )
        for name, column in zip(COLUMNS, zip(*found, strict=True), strict=True)
    )
    same = sum(len(set(verdicts)) == 1 for verdicts in found)
    opposite = sum({Verdict.HOLDS, Verdict.FAILS} <= set(verdicts) for verdicts in found)
    return Table(
        TITLE,
        ["id", "claim", *COLUMNS],
        shown,
        f"{len(found)} metrics. {counts}. All three agree on the verdict of {same}; {opposite} "
        "hold under one and fail under another. The three have the same buffers and seeds, and "
        "fewer of both than the verdicts above.",
    )


def long_paths(outcome: Measurements) -> Table | None:
    """Each queue's goodput ratio of long paths, in the base and under each version.

    `None` if a version was not run.
    """
    if not _were_run(outcome):
        return None
    rows = []
    for topology in (ROUND_TRIPS, HOPS):
        for which in QUEUES:
            ratios = [_ratio(outcome, topology, which, choice) for choice in COLUMNS]
            if any(ratios):
                rows.append([topology.title, TITLES[which], *map(interval_text, ratios)])
    if not rows:
        return None
    return Table(
        LONG_PATHS,
        ["network", "queue", *COLUMNS],
        rows,
        "Mean over 200, 1000 and 5000 packets with two round-trip times, and over 1000 and 5000 "
        "packets with three bottlenecks.",
    )


LONG_PATHS = "Goodput of flows with long paths over that of the others, with each version of ns-2"


def _ratio(outcome: Measurements, topology: Topology, which: str, choice: str) -> Interval | None:
    cells = [name(topology.name, which, limit) for limit in topology.row_limits]
    shared = set.intersection(
        *(set(outcome.runs(cell, version)) for cell in cells for version in COLUMNS)
    )
    values = [
        statistics.fmean(outcome.runs(cell, choice)[seed]["ratio"] for cell in cells)
        for seed in sorted(shared)
    ]
    return t_interval(values) if values else None


def _were_run(outcome: Measurements) -> bool:
    return {choice.name for choice in VERSIONS} <= {choice.name for choice in outcome.choices}
