"""What tshark sees in a capture, to be compared with what narrows sees."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from narrows.results import Measurement

NEEDS_TSHARK = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is missing: apt-get install tshark"
)

_FIELDS = (
    "udp.stream",
    "tcp.stream",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.flags.syn",
    "tcp.flags.ack",
    "dns.flags.response",
    "dns.time",
    "tcp.analysis.initial_rtt",
    "tcp.analysis.retransmission",
    "_ws.malformed",
)


@dataclass(frozen=True)
class Seen:
    """Counts and times."""

    udp_times_ms: list[float]
    """Response times over UDP, in order of size."""
    tcp_messages: Counter[str]
    """Queries ("0") and replies ("1") over TCP."""
    handshakes_ms: list[float]
    """Times from SYN to ACK, in order of size, of connections whose SYN was sent once.

    If a SYN was sent again, tshark 4.0 counts from the last SYN, other versions give no time, and
    narrows counts from the first SYN.
    """
    retransmissions: int
    """Retransmitted data segments."""


def look(file: Path, port: int = 53) -> Seen:
    """What tshark sees in a file; of the TCP connections, those of this port, as narrows does."""
    command = ["tshark", "-r", str(file), "-T", "fields", "-E", "header=y", "-E", "separator=/t"]
    # narrows waits for 60 s before it takes the same question for another query.
    command += ["-o", "dns.retransmission_timer:60"]
    command += [part for field in _FIELDS for part in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    rows = list(csv.DictReader(io.StringIO(done.stdout), delimiter="\t"))
    udp: list[float] = []
    messages: Counter[str] = Counter()
    handshakes: dict[str, float] = {}
    syns: Counter[str] = Counter()
    again = 0
    for row in rows:
        if row["tcp.stream"]:
            if str(port) not in (row["tcp.srcport"], row["tcp.dstport"]):
                continue
            messages.update(part for part in row["dns.flags.response"].split(",") if part)
            if row["tcp.analysis.initial_rtt"]:
                handshakes[row["tcp.stream"]] = 1e3 * float(row["tcp.analysis.initial_rtt"])
            syns[row["tcp.stream"]] += _is_syn(row)
            again += bool(row["tcp.analysis.retransmission"]) and int(row["tcp.len"]) > 0
        elif row["dns.time"]:
            udp += [1e3 * float(part) for part in row["dns.time"].split(",")]
    once = [span for stream, span in handshakes.items() if syns[stream] <= 1]
    return Seen(sorted(udp), messages, sorted(once), again)


def _is_syn(row: dict[str, str]) -> bool:
    # tshark 4.0 prints 1 and 0, other versions True and False.
    return row["tcp.flags.syn"] in {"1", "True"} and row["tcp.flags.ack"] in {"0", "False"}


def agrees(measurement: Measurement, seen: Seen) -> None:
    """Asserts that narrows and tshark have seen the same."""
    exchanges, connections = measurement.exchanges, measurement.connections
    udp = exchanges.filter(transport="udp", outcome="answered")["total_ms"].sort().to_list()
    assert udp == pytest.approx(seen.udp_times_ms, abs=2e-3)
    tcp = exchanges.filter(transport="tcp")["outcome"]
    assert len(tcp) - int((tcp == "no-query-seen").sum()) == seen.tcp_messages["0"]
    assert int(tcp.is_in(["answered", "no-query-seen"]).sum()) == seen.tcp_messages["1"]
    both = connections.filter(syn_retransmissions=0).select("syn_ms", "ack_ms").drop_nulls()
    handshakes = (both["syn_ms"] + both["ack_ms"]).sort().to_list()
    assert handshakes == pytest.approx(seen.handshakes_ms, abs=2e-3)
    again = (
        connections["client_retransmissions"].sum() + connections["server_retransmissions"].sum()
    )
    assert again == seen.retransmissions
