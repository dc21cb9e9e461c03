"""The simulator sends what real servers and clients were captured to send, packet by packet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario, run

from . import capture

Rows = list[dict[str, Any]]

BASE = """
name = "captured"
duration = "20 s"

[[links]]
name = "access"
between = ["client", "router"]
rate = "1 Gbit/s"
framing = "ethernet"

[[links]]
name = "line"
between = ["router", "server"]
rate = "1 Gbit/s"
delay = "50 ms"
framing = "ethernet"

[monitor]
capture = ["access"]

[[dns]]
name = "client"
client = "client"
server = "server"
"""

OWN = 'transport.kind = "tcp"\nqueries = 1\n'
KEPT = "transport.reuse = true\ntransport.queries = 3\nqueries = 3\ntransport.kind = 'tcp'\n"
PIPELINED = """
workers = 3
queries = 1
transport.kind = "tcp"
transport.reuse = true
transport.queries = 3
transport.pipelining = true
transport.shared = true
"""
KEYS = {
    "udp": "queries = 1\ntransport.kind = 'udp'\ntransport.edns_size = '1232 B'\n",
    "tcp": OWN,
    "dig-tcp": OWN,
    "large": OWN,
    "kept": KEPT,
    "dig-kept": KEPT,
    "pipelined": PIPELINED,
    "truncated": "queries = 1\ntransport.kind = 'udp'\ntransport.edns_size = '1232 B'\n",
    "dig-truncated": "queries = 1\ntransport.kind = 'udp'\ntransport.edns_size = '1232 B'\n",
    "fragmented": "queries = 1\ntransport.kind = 'udp'\ntransport.edns_size = '4096 B'\n",
    "fast-open": 'transport.kind = "tcp"\nqueries = 2\ntransport.fast_open = true\n',
    "ecn": OWN,
}
"""The keys of each exchange in the scenario language."""

SERVERS = ("bind", "dnsdist", "knot", "nsd", "unbound")

TABLES = [
    path
    for path in sorted(capture.FOLDER.glob("*.json"))
    # The acknowledgements of one end alone were delayed there; crates/sim/tests has that. TLS and
    # HTTPS are in test_simulated_tls.py.
    if path.stem != "two-writes-delayed" and not capture.is_encrypted(path)
]


def parts(path: Path) -> tuple[str, str]:
    """Server and exchange."""
    for server in (*SERVERS, "two-writes-nodelay", "two-writes"):
        if path.stem.startswith(f"{server}-"):
            return server, path.stem.removeprefix(f"{server}-")
    raise AssertionError(path)


def lengths(rows: Rows) -> list[tuple[int, int]]:
    """The lengths of each query and its whole reply, without length prefix."""
    tcp = [row for row in rows if row["kind"] not in ("udp", "fragment")]
    if tcp and len(tcp) < len(rows):
        # If it was asked twice, the reply is the one over TCP.
        reply = sum(row["payload"] for row in tcp if row["from"] == "server")
        return [(max(SHORTEST, rows[0]["payload"]), reply - 2)]
    used = tcp or rows
    total = {
        side: sum(row["payload"] for row in used if row["from"] == side)
        for side in ("client", "server")
    }
    if not tcp:
        # A longer name is in the reply too, but fragments are compared as they are.
        query = max(SHORTEST, total["client"])
        more = query - total["client"] if len(rows) == 2 else 0
        return [(query, total["server"] + more)]
    asked = [row for row in used if row["from"] == "client" and row["payload"]]
    # Names of the same length, and replies too; pipelined queries share a segment.
    count = 3 if len(asked) == 3 or asked[0]["payload"] > 100 else 1
    return [(total["client"] // count - 2, total["server"] // count - 2)] * count


def scenario(path: Path, rows: Rows) -> Scenario:
    """The exchange as a scenario, with the captured lengths."""
    server, exchange = parts(path)
    query, reply = lengths(rows)[0]
    text = BASE + KEYS[exchange] + f'messages = [{{ query = "{query} B", reply = "{reply} B" }}]\n'
    tcp: dict[str, str] = {}
    if server in SERVERS:
        answers = f'profile = "{server}", udp_size = "4096 B"'
    else:
        nagle = "false" if server.endswith("nodelay") else "true"
        answers = f'writes = "apart", nagle = {nagle}'
    if exchange.startswith("dig"):
        # Like BIND, dig offers no larger MSS (TCP_MAXSEG 1220).
        tcp["mss"] = "1220"
    if exchange == "fast-open":
        answers += ", fast_open = true"
    if exchange == "ecn":
        tcp["ecn"] = "true"
    keys = ", ".join(f"{key} = {value}" for key, value in tcp.items())
    return Scenario.parse(text + f"answers = {{ {answers} }}\ntransport.tcp = {{ {keys} }}\n")


def simulated(path: Path, rows: Rows, folder: Path) -> Rows:
    """The packets at the client's end of the line."""
    run(scenario(path, rows), out=folder / "run")
    packets = capture.recorded(folder / "run")
    if parts(path)[1] == "fast-open":
        # The first connection got the cookie; its end may overlap with the second's beginning.
        last = packets[-1].client_port
        packets = [packet for packet in packets if packet.client_port == last]
    return capture.sequence(packets)


SHORTEST = 52
"""A query over UDP in our captures: the name that says which it is, and an EDNS record."""
COOKIES = {"bind-dig-truncated": (-16, -16), "nsd-dig-truncated": (12, 0)}
"""What DNS cookies (RFC 7873) change in dig's exchanges, in the truncated reply and in the query
over TCP: BIND adds its own, which dig then has too, and NSD leaves out what dig sent."""


def lengthened(path: Path, rows: Rows) -> Rows:
    """The captured rows, with names in queries and replies over UDP as long as ours have to be."""
    if rows[0]["kind"] != "udp":
        return rows
    more = max(0, SHORTEST - rows[0]["payload"])
    reply, query = COOKIES.get(path.stem, (0, 0))
    truncated = len(rows) > 4
    changed = []
    for place, row in enumerate(rows):
        added = 0
        if place == 0 or (place == 1 and row["kind"] == "udp" and len(rows) != 4):
            added = more + (reply if place else 0)
        elif truncated and row["from"] == "client" and row["payload"]:
            added = more + query
        changed.append(row | {"payload": row["payload"] + added, "ip": row["ip"] + added})
    return changed


def essence(rows: Rows) -> list[tuple[Any, ...]]:
    """Who sent what: flags except PSH, bytes, ECN, and the Fast Open cookie."""
    return [
        (
            row["from"],
            row["flow"],
            row["kind"].replace("P", ""),
            row["payload"],
            row["ip"],
            row.get("ecn"),
            row.get("fast_open"),
        )
        for row in rows
    ]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_packets_are_as_captured(path: Path, tmp_path: Path) -> None:
    rows: Rows = json.loads(path.read_text())["packets"]
    ours = simulated(path, rows, tmp_path)
    assert essence(ours) == essence(lengthened(path, rows))
    for one, real in zip(ours, rows, strict=True):
        assert abs(one["at"] - real["at"]) < 0.25, (one, real)
