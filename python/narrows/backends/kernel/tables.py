"""From the agent's files to the tables of a run folder.

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


def read_tables(
    folder: Path, plan: Plan, job: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]
) -> dict[str, Columns]:
    """The tables as columns.

    Args:
        folder: The run's workspace.
        plan: What was run.
        job: The agent's job.
        flows: The connections, in the order of the table `flows`.

    Raises:
        OSError: A file of the agent is missing.
        ValueError: A file of the agent is not JSON.
    """
    links = {link["name"]: link for link in plan["links"]}
    tables: dict[str, Any] = (
        live.tables(folder)
        if job.get("live")
        else {
            **_flows(folder, job, flows),
            **_dns(folder, job),
            **_goodput(folder, plan, job),
        }
    )
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


def _flows(
    folder: Path, job: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]
) -> dict[str, Columns]:
    rows: list[dict[str, Any]] = []
    for number in range(len(job["bulk"])):
        rows += _read(folder, f"bulk-{number}")
    rows.sort(key=lambda row: row["flow"])
    found = []
    for row, flow in zip(rows, flows, strict=True):
        sender = row["sender"]
        found.append(
            {
                "flow": row["flow"],
                **flow,
                "ecn": sender.get("ecn", False),
                "start_s": row["start_s"],
                "established_s": row["established_s"],
                "end_s": row["end_s"],
                "bytes_acked": max(0, sender.get("bytes_acked", 0)),
                "bytes_received": row["bytes_received"],
                "segments_sent": sender.get("segs_out", 0),
                "segments_retransmitted": sender.get("retransmitted", 0),
                "timeouts": None,
                "fast_recoveries": None,
                "ecn_reductions": None,
                "tail_probes": None,
                "undos": None,
                "marks_received": None,
                "srtt_ms": sender.get("srtt_ms") or None,
                "min_rtt_ms": sender.get("min_rtt_ms"),
                "cwnd_segments": sender.get("cwnd"),
                "cwnd_mean_segments": None,
                "busy_s": _seconds(sender.get("busy_us")),
                "rwnd_limited_s": _seconds(sender.get("rwnd_limited_us")),
            }
        )
    samples = [
        {
            "t_s": sample["t_s"],
            "flow": row["flow"],
            "bytes_received": sample["bytes_received"],
            "segments_sent": sample["sender"].get("segs_out", 0),
            "segments_retransmitted": sample["sender"].get("retransmitted", 0),
            "timeouts": None,
            "ecn_reductions": None,
            "srtt_ms": sample["sender"].get("srtt_ms") or None,
        }
        for row in rows
        for sample in row.get("samples", ())
    ]
    return {
        "flows": _columns(found),
        "flow_samples": _columns(samples),
    }


def _dns(folder: Path, job: Mapping[str, Any]) -> dict[str, Columns]:
    queries: list[dict[str, Any]] = []
    attempts: list[dict[str, Any]] = []
    for number, group in enumerate(job["dns"]):
        found = _read(folder, f"dns-{number}")
        first = len(queries)
        for row in _rows(found["queries"]):
            queries.append({"query": len(queries), "group": group["group"], **row})
        for row in _rows(found["attempts"]):
            attempts.append({**row, "query": first + row["query"], "lost_at": "", "reason": ""})
    return {"queries": _columns(queries), "attempts": _columns(attempts)} if queries else {}


def _goodput(folder: Path, plan: Plan, job: Mapping[str, Any]) -> dict[str, Columns]:
    """The goodput of the groups of connections. A group may have several processes.

    Processes take their samples at about the same time. Rows are ordered by sample, and within a
    sample by the plan's order of groups, as in the simulator.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for number, group in enumerate(job["bulk"]):
        if group["goodput_s"] is not None:
            found.setdefault(group["group"], []).append(_read(folder, f"goodput-bulk-{number}"))
    two_way = {
        group["group"] for group in job["bulk"] if any(flow["backward"] for flow in group["flows"])
    }
    rows: list[tuple[int, dict[str, Any]]] = []
    order = [application["name"] for application in plan["applications"]]
    for group, parts in sorted(found.items(), key=lambda each: order.index(each[0])):
        samples = [
            *zip(*(part["samples"] for part in parts), strict=False),
            tuple(part["last"] for part in parts),
        ]
        for place, direction in enumerate(_DIRECTIONS[: 1 + (group in two_way)], start=1):
            rows += [
                (
                    number,
                    {
                        "t_s": max(part[0] for part in sample),
                        "group": group,
                        "direction": direction,
                        "bytes_received": sum(part[place] for part in sample),
                    },
                )
                for number, sample in enumerate(samples)
            ]
    rows.sort(key=lambda row: row[0])
    return {"goodput": _columns([row for _, row in rows])}


_DIRECTIONS = ("forward", "backward")


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


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6


def _sum(*columns: Sequence[int]) -> list[int]:
    return [sum(values) for values in zip(*columns, strict=True)]


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    if not columns:
        return []
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}
