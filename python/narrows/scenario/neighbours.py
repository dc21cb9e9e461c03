"""What routers know about their neighbours: the table `neighbours`, its metrics and its plot.

A link with `neighbours = "arp"` brings the table. Its states are Linux's, as `ip monitor neigh`
prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from narrows.records import Axis, Headline, Metric, Plot, Record, Series, declared_table

if TYPE_CHECKING:
    import polars as pl

STATES = ("reachable", "stale", "delay", "probe", "incomplete", "failed")
"""The states of an entry, those with an address first."""

_WITHOUT_ADDRESS = ("incomplete", "failed")


def _outages(rows: pl.DataFrame) -> list[tuple[float, float | None]]:
    """When entries lost their address, and got it again, in seconds; None: not until the end."""
    outages = []
    for _, entry in rows.group_by("node", "neighbour", maintain_order=True):
        had_one = False
        began: float | None = None
        for at, state in entry.select("t_s", "state").iter_rows():
            if state in _WITHOUT_ADDRESS:
                began = at if had_one and began is None else began
            else:
                if began is not None:
                    outages.append((began, at))
                had_one, began = True, None
        if began is not None:
            outages.append((began, None))
    return outages


def _summarise(rows: pl.DataFrame, end_s: float) -> dict[str, Any]:
    outages = _outages(rows)
    states = rows.get_column("state")
    return {
        "failures": int((states == "failed").sum()),
        "outages": len(outages),
        "without_address_s": sum(
            end_s - began if ended is None else ended - began for began, ended in outages
        ),
        "probed": int((states == "probe").sum()),
    }


def _states_say(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["probed"] and not metrics["failures"]:
        return None
    return (
        f"Steps over time: routers probed an old address {metrics['probed']} times, and "
        f"{metrics['failures']} resolutions failed; they had no address for "
        f"{metrics['without_address_s']:.3g} s in all."
    )


NEIGHBOURS = Record(
    table=declared_table("neighbours"),
    title="neighbours",
    metrics=(
        Metric(
            "failures",
            "entries that failed",
            doc="How often an entry failed because its requests got no answer.",
            better="lower",
        ),
        Metric(
            "outages",
            "times without address",
            doc="How often a known address was lost.",
            better="lower",
        ),
        Metric(
            "without_address_s",
            "time without address",
            "s",
            doc="Time without an address, of all entries together.",
            better="lower",
        ),
        Metric("probed", "probes of entries", doc="How often an old address was asked for again."),
    ),
    summarise=_summarise,
    headline=Headline("failures", "failures of neighbour entries"),
    plots=(
        Plot(
            "neighbours",
            title="What routers know of their neighbours",
            x="time (s)",
            y=Axis(
                "state of the entry",
                ends=(-0.3, len(STATES) - 0.7),
                ticks=tuple(enumerate(map(str, STATES))),
            ),
            caption=(
                "An entry without an address (incomplete, failed) stops all packets over its link. "
                "It fails where the link's queue drops the neighbour's ARP replies."
            ),
            says=_states_say,
            series=(
                Series(
                    "{node}'s entry for {neighbour}",
                    "neighbours",
                    "t_s",
                    ("place", "state", STATES),
                    shape="after",
                    each=("node", "neighbour"),
                ),
            ),
        ),
    ),
)
