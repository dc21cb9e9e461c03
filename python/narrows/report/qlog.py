"""The sampled connections of a run as a qlog file.

Sources: draft-ietf-quic-qlog-main-schema-13 (the file), draft-ietf-quic-qlog-quic-events-12 (the
events). All events come from the table `flow_states`, so they are samples:

- `recovery_metrics_updated`: the values that differ from those of the sample before. They are exact
  at this time; what was between two samples is not known.
- `congestion_state_updated`: the state differs from that of the sample before. A state that began
  and ended in between is missing.
- `packet_lost`: one for each packet that was found lost since the sample before. Their number is
  exact, and their time is that of the sample.

Other events of qlog, such as `packet_sent`, are not written: captures (`monitor.capture`) have the
packets. The drafts have no events for TCP. Its connections have the first two, with the same
members, in a namespace of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from narrows.report.files import new_file, write_bytes
from narrows.results import Run, RunFolderError
from narrows.results.flow_states import sampled_connections, sampled_groups

Event = dict[str, Any]

QUIC_EVENTS = "urn:ietf:params:qlog:events:quic-12"
TCP_EVENTS = "urn:x-narrows:qlog:events:tcp-1"
"""Private, as the drafts allow it."""

_METRICS = {
    "min_rtt": "min_rtt_ms",
    "smoothed_rtt": "srtt_ms",
    "congestion_window": "cwnd_bytes",
    "bytes_in_flight": "in_flight_bytes",
    "ssthresh": "ssthresh_bytes",
    "pacing_rate": "pacing_bit_per_s",
}
"""Members of `recovery_metrics_updated`, and the columns that they come from."""
_IN_MS = ("min_rtt", "smoothed_rtt")
MOST_LOST = 1_000_000
"""The most losses of a connection; each is an event, and a stranger's table may have any number."""


def write_qlog(run: Run, path: str | Path) -> Path:
    """Writes the sampled connections of a run as a qlog file in JSON, a trace for each.

    Args:
        run: The run.
        path: The file, which must not exist.

    Raises:
        RunFolderError: The run has no samples of connections, a connection has more than
            `MOST_LOST` losses, or the file exists or cannot be written.
    """
    target = new_file(path)
    text = json.dumps(qlog(run), separators=(",", ":"), allow_nan=False)
    return write_bytes(target, text.encode() + b"\n")


def qlog(run: Run) -> dict[str, Any]:
    """The sampled connections of a run in the form of a qlog file.

    Raises:
        RunFolderError: The run has no samples of connections.
    """
    if "flow_states" not in run.tables or run.table("flow_states").is_empty():
        hint = '[monitor] flows = { groups = ["*"], rate = 10 }'
        raise RunFolderError(run.folder or Path("run"), "has no samples of connections", hint)
    senders = dict(run.flows.select("name", "sender").iter_rows())
    traces = [
        _trace(
            list(rows.iter_rows(named=True)),
            senders,
            run.folder or Path("run"),
            over_quic=_is_quic(run.scenario, group),
        )
        for group, of_group in sampled_groups(run.table("flow_states")).items()
        for rows in sampled_connections(of_group).values()
    ]
    return {
        "file_schema": "urn:ietf:params:qlog:file:contained",
        "serialization_format": "application/qlog+json",
        "title": run.name,
        "description": f"connections of a run of narrows {run.narrows}, seed {run.seed}",
        "traces": traces,
    }


def _trace(
    rows: list[Mapping[str, Any]], senders: Mapping[str, str], place: Path, *, over_quic: bool
) -> dict[str, Any]:
    first = rows[0]
    name = senders.get(first["name"])
    namespace = "quic" if over_quic else "tcp"
    return {
        "title": f"{first['group']} {first['connection']}",
        "description": "samples: what was between two of them is not known",
        "common_fields": {
            "time_format": "relative_to_epoch",
            "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
            "group_id": f"{first['group']} {first['connection']}",
        },
        "vantage_point": {**({"name": name} if name else {}), "type": "unknown"},
        "event_schemas": [QUIC_EVENTS if over_quic else TCP_EVENTS],
        "events": [
            {"time": round(time * 1e9) / 1e6, "name": f"{namespace}:{kind}", "data": data}
            for time, kind, data in _events(rows, place, over_quic=over_quic)
        ],
    }


def _events(
    rows: list[Mapping[str, Any]], place: Path, *, over_quic: bool
) -> Iterator[tuple[float, str, dict[str, Any]]]:
    """The time in seconds, the type and the data of each event."""
    metrics: dict[str, Any] = {}
    state: str | None = None
    lost = 0
    for row in rows:
        at = row["t_s"]
        found = {
            member: row[column] if member in _IN_MS else round(row[column])
            for member, column in _METRICS.items()
            if row[column] is not None
        }
        changed = {member: value for member, value in found.items() if metrics.get(member) != value}
        if changed:
            yield at, "recovery_metrics_updated", changed
        metrics = found
        if row["state"] != state:
            data = {"old": state, "new": row["state"]}
            yield at, "congestion_state_updated", {k: v for k, v in data.items() if v is not None}
            state = row["state"]
        if over_quic:
            if row["retransmissions"] > MOST_LOST:
                what = f"has a connection with more than {MOST_LOST} losses"
                raise RunFolderError(place, what, "capture the link instead (monitor.capture)")
            yield from ((at, "packet_lost", {}) for _ in range(lost, row["retransmissions"]))
            lost = max(lost, row["retransmissions"])


def _is_quic(scenario: Mapping[str, Any], group: str) -> bool:
    """Whether the connections of a group are QUIC's."""
    for each in [*(scenario.get("traffic") or ()), *(scenario.get("dns") or ())]:
        if each.get("name") == group:
            transport = each.get("transport")
            kind = transport.get("kind") if isinstance(transport, Mapping) else transport
            return kind in ("quic", "http3")
    return False
