"""From the files of narrows-live and the agent to the tables of a run folder.

Columns that only a simulator can fill stay empty: the queue that lost an attempt, the time that
packets spent in a queue, RED's average, the timeouts of a single connection.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows.backends.kernel import live

Columns = dict[str, list[Any]]
Plan = Mapping[str, Any]

MOST_GAPS = 0.01
"""The share of missed samples above which a run gets a flag."""


def read_tables(folder: Path, plan: Plan, job: Mapping[str, Any]) -> dict[str, Columns]:
    """The tables as columns.

    Args:
        folder: The run's workspace.
        plan: What was run.
        job: The agent's job.

    Raises:
        OSError: A file of narrows-live or the agent is missing.
        ValueError: Such a file is damaged.
    """
    links = {link["name"]: link for link in plan["links"]}
    tables: dict[str, Any] = live.tables(folder)
    if job["samples"]["queues"] is not None:
        found = _read(folder, "queues")
        tables["queues"] = _queues(found["rows"])
        tables["processor"] = found["processor"]
    if job["samples"]["links"] is not None:
        tables["links"] = _links(_read(folder, "links")["rows"], links, _rates(plan))
    return {name: columns for name, columns in tables.items() if columns}


def gaps(folder: Path, job: Mapping[str, Any]) -> dict[str, int]:
    """The number of samples missed because the machine was too busy, by table name."""
    return {
        name: int(_read(folder, name)["gaps"])
        for name in ("queues", "links")
        if job["samples"][name] is not None
    }


def gap_flags(where: str, missed: int, table: Mapping[str, Sequence[Any]] | None) -> list[str]:
    """A warning if a table lacks too many samples; empty otherwise."""
    taken = len(set(table["t_s"])) if table else 0
    if missed <= MOST_GAPS * (taken + missed):
        return []
    return [f"{missed} of {taken + missed} samples {where} were not taken in time"]


def captures(folder: Path, job: Mapping[str, Any]) -> dict[str, bytes]:
    """The contents of the capture files, by link name."""
    return {each["link"]: (folder / each["file"]).read_bytes() for each in job["captures"]}


def captures_missed(folder: Path, job: Mapping[str, Any]) -> int:
    """The number of packets that captures lack because the machine was too busy."""
    return int(_read(folder, "captures")["missed"]) if job["captures"] else 0


def _read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def _queues(rows: Columns) -> Columns:
    if not rows:
        return {}
    none = [None] * len(rows["t_s"])
    zero = [0] * len(rows["t_s"])
    mean = [
        bytes_ / packets if packets else 0.0
        for bytes_, packets in zip(rows["sent_bytes"], rows["sent_packets"], strict=True)
    ]
    return {
        "t_s": rows["t_s"],
        "link": rows["link"],
        "backlog_packets": rows["backlog_packets"],
        "backlog_bytes": rows["backlog_bytes"],
        "ring_packets": rows["ring_packets"],
        "ring_bytes": rows["ring_bytes"],
        "average_packets": none,
        "average_bytes": none,
        "sojourn_mean_ms": none,
        "sojourn_max_ms": none,
        "arrived_packets": _sum(rows["sent_packets"], rows["drops"], rows["backlog_packets"]),
        # The kernel does not count the bytes of dropped packets, so assume the mean length.
        "arrived_bytes": [
            sent + backlog + round(drops * each)
            for sent, backlog, drops, each in zip(
                rows["sent_bytes"], rows["backlog_bytes"], rows["drops"], mean, strict=True
            )
        ],
        "sent_packets": rows["sent_packets"],
        "dropped_overflow": rows["dropped_overflow"],
        "dropped_early": rows["dropped_early"],
        # The kernel's RED has one counter for both.
        "dropped_forced": zero,
        "marked_early": rows["marked"],
        "marked_forced": zero,
        "dropped_dns": none,
    }


def _rates(plan: Plan) -> dict[str, list[tuple[float, int]]]:
    """For each link that changes, its rates: start in seconds, and bits per second."""
    found: dict[str, list[tuple[float, int]]] = {}
    for change in sorted(plan["changes"], key=lambda change: change["at"]):
        if change["rate"] is not None:
            name = plan["links"][change["link"]]["name"]
            found.setdefault(name, []).append((change["at"] / 10**12, int(change["rate"])))
    return found


def _links(
    rows: Columns, links: Mapping[str, Plan], rates: Mapping[str, Sequence[tuple[float, int]]]
) -> Columns:
    if not rows:
        return {}
    framed, busy = [], []
    # For each link: bytes up to the last sample, and the time they took.
    before: dict[str, tuple[int, float]] = {}
    for t_s, name, packets, bytes_ in zip(
        rows["t_s"], rows["link"], rows["wire_packets"], rows["wire_bytes"], strict=True
    ):
        framing = links[name]["framing"]
        total = bytes_ + packets * (framing["overhead"] - framing["queue_overhead"])
        framed.append(total)
        # A period in which the rate changes counts at the later rate.
        rate = links[name]["rate"]
        for at_s, later in rates.get(name, ()):
            rate = later if at_s <= t_s else rate
        last, took = before.get(name, (0, 0.0))
        before[name] = (total, took + 8.0 * (total - last) / rate)
        busy.append(before[name][1])
    return {
        "t_s": rows["t_s"],
        "link": rows["link"],
        "packets": rows["wire_packets"],
        "bytes": framed,
        "busy_s": [
            min(each, t) if math.isfinite(each) else 0.0
            for each, t in zip(busy, rows["t_s"], strict=True)
        ],
        "lost": rows["lost"],
    }


def _sum(*columns: Sequence[int]) -> list[int]:
    return [sum(values) for values in zip(*columns, strict=True)]
