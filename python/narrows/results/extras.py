"""Tables that only some runs have: samples of TCP, and records of traffic, links and kernels.

The kinds are loaded only if a run has their tables, because the scenario language takes a while to
load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from narrows.records import Record, Table, declared_table
from narrows.results.flow_samples import FLOW_SAMPLES
from narrows.results.flow_states import FLOW_STATES
from narrows.results.goodput import GOODPUT

QUEUE_DELAYS = declared_table("queue_delays")
QUEUE_DELAY_BINS = declared_table("queue_delay_bins")
QUEUE_CLASS_DELAYS = declared_table("queue_class_delays")
QUEUE_CLASS_DELAY_BINS = declared_table("queue_class_delay_bins")
DELAYS = declared_table("delays")
DELAY_BINS = declared_table("delay_bins")
PACKET_DELAYS = declared_table("packet_delays")

SAMPLES = {
    table.name: table
    for table in (
        *(GOODPUT, FLOW_SAMPLES, FLOW_STATES, QUEUE_DELAYS, QUEUE_DELAY_BINS),
        *(QUEUE_CLASS_DELAYS, QUEUE_CLASS_DELAY_BINS, DELAYS, DELAY_BINS, PACKET_DELAYS),
    )
}
"""Tables that only some runs have, and that have no section of their own in summaries."""


def records() -> Mapping[str, Record]:
    """The records of kinds of traffic, links and kernels, by the name of the table."""
    from narrows.results.processor import PROCESSOR
    from narrows.scenario import traffic
    from narrows.scenario.neighbours import NEIGHBOURS

    return {
        **traffic.records(),
        **{record.table.name: record for record in (NEIGHBOURS, PROCESSOR)},
    }


def extra_table(name: str) -> Table | None:
    """The declaration of a table that only some runs have; None if no such table exists."""
    if name in SAMPLES:
        return SAMPLES[name]
    record = records().get(name)
    return None if record is None else record.table


def wanted(scenario: Mapping[str, Any]) -> set[str]:
    """The names of the tables that a scenario's kinds of traffic add."""
    from narrows.scenario.traffic import recorded_by

    groups = scenario.get("traffic", ())
    tables = set(recorded_by(group.get("kind") for group in groups if isinstance(group, Mapping)))
    links = scenario.get("links")
    if isinstance(links, list) and any(
        isinstance(link, Mapping) and link.get("neighbours") == "arp" for link in links
    ):
        from narrows.scenario.neighbours import NEIGHBOURS

        tables.add(NEIGHBOURS.table.name)
    return tables


def summaries(
    tables: Mapping[str, pl.DataFrame], end_s: float, window: tuple[float, float] | None
) -> dict[str, Any]:
    """The sections that kinds of traffic add to a summary, for the tables of a run.

    With a window, in seconds, those rows count that began within it. A table without rows gives
    None. If a table has several groups, `groups` has each one's metrics.
    """
    found: dict[str, Any] = {}
    for name, record in records().items():
        if name not in tables:
            continue
        rows, length_s = tables[name], end_s
        if window is not None and not record.whole:
            rows = rows.filter(pl.col(record.table.began).is_between(*window, closed="left"))
            length_s = window[1] - window[0]
        if rows.is_empty():
            found[name] = None
            continue
        found[name] = dict(record.summarise(rows, length_s))
        if record.parts is not None:
            for part in rows.get_column(record.parts.column).unique(maintain_order=True):
                of_part = rows.filter(pl.col(record.parts.column) == part)
                found[name][part] = dict(record.summarise(of_part, length_s))
        of_groups = by_group(rows, tables["flows"])
        if len(of_groups) > 1:
            found[name]["groups"] = {
                group: dict(record.summarise(of_group, length_s))
                for group, of_group in of_groups.items()
            }
    return found


def by_group(rows: pl.DataFrame, flows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The rows of each traffic group, in the order of their first rows.

    Rows that name a connection instead of a group belong to the connection's group. The result is
    empty if rows name neither.
    """
    if "group" not in rows.columns:
        if "flow" not in rows.columns:
            return {}
        rows = rows.join(
            flows.select("flow", "group"), on="flow", how="left", maintain_order="left"
        )
    parts = rows.partition_by("group", as_dict=True, maintain_order=True)
    return {str(group): part for (group,), part in parts.items()}
