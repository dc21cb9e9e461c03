"""What readers of a measurement from captures should know before they read its tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from narrows import _core
from narrows.results import Measurement


def notes(measurement: Measurement, folder: Path) -> Iterator[str]:
    """A line on what to look at next, and lines on what the capture could not see.

    Args:
        measurement: What the captures hold.
        folder: Its run folder.
    """
    if measurement.exchanges.height:
        yield _where_to_read_on(measurement, folder)
    near = measurement.findings["watched_near"]
    if near == "server":
        yield (
            "note: the capture was made near the server, so its times contain no round trip; "
            "connections.ack_ms has the clients' round trips"
        )
    if near == "unknown" and measurement.connections.height:
        yield (
            "note: it is unknown whether the capture was made near the client or the server: "
            f"{measurement.findings['watched_near_because']}; near a server, times contain no "
            "round trip"
        )
    cut = sum(
        remark["records"]
        for remark in measurement.findings["remarks"]
        if remark["kind"] in _core.cut_off_remarks
    )
    tls = (measurement.findings.get("overview") or {}).get("tcp_connections", {}).get("tls", 0)
    if tls:
        connections = "connection carries" if tls == 1 else "connections carry"
        yield (
            f"note: {tls} {connections} TLS, whose queries cannot be read; hint: a server's dnstap "
            "has them, too"
        )
    kinds = {remark["kind"] for remark in measurement.findings["remarks"]}
    if "coarse" in kinds:
        yield (
            "note: BIND stamps dnstap with a clock that goes in steps of 4 ms, so shorter times "
            "are 0 or 4 ms; hint: a packet capture has finer times"
        )
    if "late" in kinds:
        yield (
            "note: some packets are over a second behind later ones, so they were read in the "
            "file's order; times around them may be missing; hint: reordercap sorts a file"
        )
    if cut:
        yield (
            f"note: the capture cut off {cut} messages before the end of their question, so their "
            "names and types are null; hint: tcpdump -s 0 keeps whole packets"
        )


def _where_to_read_on(measurement: Measurement, folder: Path) -> str:
    answered = measurement.exchanges.filter(outcome="answered")["transport"].unique()
    ratio = f"narrows ratio {folder} compares tcp with udp; "
    tables = f"{folder}/exchanges.parquet has a row for each query"
    if measurement.connections.height:
        tables += ", connections.parquet one for each connection"
    return f"next: {ratio if {'udp', 'tcp'} <= set(answered) else ''}{tables}"
