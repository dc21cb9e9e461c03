"""The captures say what their tables say, and the servers still do what was captured."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from . import capture, real_servers, real_zones, test_simulated_quic, test_simulated_tls
from .conftest import INSTALL, cannot
from .packets import TCP, once

TABLES = sorted(capture.FOLDER.glob("*.json"))
Rows = list[dict[str, Any]]


def rows_of(path: Path) -> Rows:
    rows: Rows = json.loads(path.read_text())["packets"]
    return rows


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_table_is_the_capture(path: Path) -> None:
    assert capture.sequence(capture.read(path.with_suffix(".pcapng"))) == rows_of(path)


def test_every_exchange_is_there() -> None:
    names = {
        f"{server.name}-{exchange.name}"
        for server in real_servers.SERVERS + real_servers.OURS
        for exchange in capture.exchanges_of(server)
    }
    assert {path.stem for path in TABLES} == names


@pytest.mark.parametrize(
    "path", [path for path in TABLES if not capture.is_encrypted(path)], ids=lambda path: path.stem
)
def test_round_trips(path: Path) -> None:
    """UDP takes one round trip; TCP two (RFC 7766, 6.1), with Fast Open one (RFC 7413)."""
    rows = [row for row in rows_of(path) if row["kind"] != "fragment"]
    udp = [row for row in rows if row["kind"] == "udp"]
    tcp = [row for row in rows if row["kind"] != "udp"]
    if udp:
        assert udp[1]["from"] == "server"
        assert abs(udp[1]["at"] - udp[0]["at"] - 1) < 0.3
    if tcp:
        assert tcp[0]["kind"] in ("S", "SEW")
        reply = next(row for row in tcp if row["from"] == "server" and row["payload"])
        expected = 1 if tcp[0]["payload"] else 2
        assert abs(reply["at"] - tcp[0]["at"] - expected) < 0.4


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_one_write_a_message(path: Path) -> None:
    """No segment of a real server carries the length alone."""
    if path.stem.startswith("two-writes"):
        return
    for packet in capture.read(path.with_suffix(".pcapng")):
        assert packet.protocol != TCP or len(packet.payload) not in (1, 2)


@pytest.mark.parametrize(
    ("name", "expected"),
    # The timeout of delayed acknowledgements is 40 ms (tcp_delack_min in Linux), 0.4 round trips.
    [("two-writes-tcp", 3.0), ("two-writes-nodelay-tcp", 2.0), ("two-writes-delayed", 3.4)],
)
def test_two_writes(name: str, expected: float) -> None:
    """With Nagle's algorithm the message waits for the length's acknowledgement (RFC 896)."""
    rows = rows_of(capture.FOLDER / f"{name}.json")
    length, reply = (row for row in rows if row["from"] == "server" and row["payload"])
    assert length["payload"] == 2
    assert abs(reply["at"] - expected) < 0.2


@pytest.mark.parametrize(
    ("server", "waits"), [("nsd", True), ("bind", True), ("unbound", True), ("dnsdist", False)]
)
def test_tickets_hold_the_first_reply_back(server: str, waits: bool) -> None:
    """With Nagle's algorithm the reply waits for the acknowledgement of the tickets before it.

    The client's kernel delays it by 40 ms, 0.4 round trips; a second ticket leaves with the reply.
    """
    rows = rows_of(capture.FOLDER / f"{server}-tls.json")
    sent = [row for row in rows if row["from"] == "server" and row["payload"]]
    # Three segments of certificates, then tickets and the reply.
    first, *others = sent[3:]
    reply = others[0] if waits else others[1]
    assert (reply["at"] - first["at"] > 1.3) == waits


def test_long_certificates_leave_in_two_writes() -> None:
    """OpenSSL writes 4096 bytes at a time, and Nagle's algorithm holds the rest back."""
    gaps = {}
    for server in ("nsd", "unbound", "dnsdist", "bind"):
        rows = rows_of(capture.FOLDER / f"{server}-tls-chain.json")
        sent = [row for row in rows if row["from"] == "server" and row["payload"]]
        written = [sum(row["payload"] for row in sent[: place + 1]) for place in range(5)]
        if server == "bind":
            assert 4096 not in written
            gaps[server] = sent[4]["at"] - sent[0]["at"]
        else:
            at = written.index(4096)
            gaps[server] = sent[at + 1]["at"] - sent[at]["at"]
    assert gaps["nsd"] > 0.9 and gaps["unbound"] > 0.9
    assert gaps["dnsdist"] < 0.5 and gaps["bind"] < 0.5


def test_ecn() -> None:
    """RFC 3168, 6.1.1: offered with ECE and CWR, taken with ECE; packets with data are marked."""
    rows = rows_of(capture.FOLDER / "nsd-ecn.json")
    assert [row["kind"] for row in rows[:2]] == ["SEW", "S.E"]
    for row in rows:
        assert row.get("ecn") == ("ECT(0)" if row["payload"] else None)


def essence(rows: Rows) -> list[tuple[str, str, int]]:
    """What a busy machine does not change: everything but bare acknowledgements and PSH flags."""
    return [
        (row["from"], row["kind"].replace("P", ""), row["payload"])
        for row in rows
        if row["payload"] or row["kind"] not in (".", "P.")
    ]


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """All exchanges once more, on a shorter line."""
    if reason := cannot():
        pytest.skip(reason)
    absent = real_servers.missing()
    absent += [tool for tool in ("dumpcap", "kdig", "dig") if not shutil.which(tool)]
    if absent:
        pytest.skip(f"{absent[0]} is not installed; {INSTALL}")
    folder = tmp_path_factory.mktemp("captures")
    files = real_zones.write(folder / "zones")
    files.pop("root")

    def one(server: real_servers.RealServer) -> dict[str, Rows]:
        def enough(name: str, path: Path) -> bool:
            """Whether a capture is as before; a busy machine may need several captures."""
            try:
                compare(f"{server.name}-{name}", rows_again(path))
            except AssertionError:
                return False
            return True

        exchanges = capture.exchanges_of(server)
        made = capture.run(server, exchanges, files, folder, 0.02, times=3, enough=enough)
        return {f"{server.name}-{name}": rows_again(path) for name, path in made.items()}

    found: dict[str, Rows] = {}
    # They run at once, because they mostly wait.
    servers = real_servers.SERVERS + real_servers.OURS
    with ThreadPoolExecutor(len(servers)) as pool:
        for rows in pool.map(one, servers):
            found |= rows
    return found


@pytest.mark.servers
@pytest.mark.alone
@pytest.mark.parametrize("name", [path.stem for path in TABLES])
def test_the_servers_do_it_again(name: str, again: dict[str, Rows]) -> None:
    compare(name, again[name])


def rows_again(path: Path) -> Rows:
    """The rows of a new capture."""
    return capture.sequence(once(capture.read(path)))


def compare(name: str, rows: Rows) -> None:
    """Asserts that a new capture of an exchange has the packets of the one that is kept."""
    path = capture.FOLDER / f"{name}.json"
    kept = rows_of(path)
    if "-quic" in name:
        # On a busy machine, tail loss probes come in between, which look like data.
        ours, theirs = (test_simulated_quic.ways(each) for each in (rows, kept))
        for end in ("client", "server"):
            assert test_simulated_quic.is_among(theirs[end], ours[end]), (theirs[end], ours[end])
    elif capture.is_encrypted(path):
        ours, theirs = (tls_ways(each) for each in (rows, kept))
        if name.startswith("dnsdist-https"):
            ours, theirs = without_dates(ours), without_dates(theirs)
        if name.startswith("bind-https"):
            ours, theirs = in_any_records(ours), in_any_records(theirs)
        assert ours == theirs
    else:
        assert essence(rows) == essence(kept)


def without_dates(
    ways: dict[tuple[int, str], list[tuple[str, int]]],
) -> dict[tuple[int, str], list[tuple[str, int]]]:
    """The rows without what depends on the time: dnsdist's replies over HTTPS carry a `date`.

    Its digits take five or six bits each (RFC 7541, appendix B), so a reply is a byte or two longer
    at other times. dnsdist's SETTINGS come with their acknowledgement or before it, so only the
    handshake before them has fixed segments.
    """
    return {
        (number, end): sent[:_HANDSHAKE] if end == "server" else sent
        for (number, end), sent in ways.items()
    }


def in_any_records(
    ways: dict[tuple[int, str], list[tuple[str, int]]],
) -> dict[tuple[int, str], list[tuple[str, int]]]:
    """The rows without what depends on the time.

    BIND's acknowledgement of SETTINGS and its reply come in separate TLS records, or in one.
    """

    def content(sent: list[tuple[str, int]]) -> list[tuple[str, int]]:
        rest = [payload - _RECORD for kind, payload in sent[_HANDSHAKE:] if not kind and payload]
        other = [packet for packet in sent[_HANDSHAKE:] if packet[0]]
        return [*sent[:_HANDSHAKE], ("", sum(rest)), *other]

    return {way: content(sent) if way[1] == "server" else sent for way, sent in ways.items()}


_RECORD = 22
"""What TLS 1.3 adds to a record: header, type and tag (RFC 8446, 5.2)."""

_HANDSHAKE = 5
"""Segments of dnsdist before its SETTINGS: the SYN-ACK and those of the TLS handshake."""


def tls_ways(rows: Rows) -> dict[tuple[int, str], list[tuple[str, int]]]:
    """What each end sent until the client closed, because its kernel resets what comes later."""
    sent = test_simulated_tls.ways(rows)
    return {way: [(row["kind"], row["payload"]) for row in each] for way, each in sent.items()}
