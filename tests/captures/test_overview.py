"""The overview of a capture, from exchanges whose metrics are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from narrows.captures import read_captures, say_overview
from narrows.captures.overview import overview
from narrows.captures.reading import watched_near
from narrows.cli import main
from narrows.results import Measurement

DATA = Path(__file__).parent / "data"


def row(transport: str, at: float, ms: float = 10.0, **more: Any) -> dict[str, Any]:
    usual = {"exchange": 0, "vantage": "10.0.0.1", "target": "10.0.0.2", "transport": transport}
    usual |= {"started_s": at, "query_ms": ms, "total_ms": ms, "outcome": "answered"}
    usual |= {"qname": "big.example.", "qtype": "TXT", "rcode": "NOERROR", "truncated": False}
    return usual | more


def cut(at: float, **more: Any) -> dict[str, Any]:
    return row("udp", at, truncated=True, **more)


def measured(*rows: dict[str, Any], connections: list[dict[str, Any]] | None = None) -> Measurement:
    found = Measurement.of_rows(
        "capture", exchanges=rows, connections=connections or [], narrows="0"
    )
    metrics = overview(found.exchanges, found.connections, 0)
    return Measurement.of_rows(
        "capture", exchanges=rows, narrows="0", findings={"overview": metrics}
    )


def test_a_real_capture_of_truncated_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three queries for 3,045 bytes over 40 ms, each truncated over UDP and repeated over TCP."""
    out = tmp_path / "run"
    assert main(["import", "capture", str(DATA / "unbound-big.pcapng"), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "udp: 3 of 3 answers truncated, most for big. TXT (3)\n" in said.out
    assert "tcp: 3 of 3 queries came within 5 s after a truncated udp answer" in said.out
    assert "tcp: 1 query per connection, at most 1, on 3 connections" in said.out
    assert "tcp with its handshake: median 81." in said.out
    assert f"next: narrows ratio {out}" in said.err
    found = Measurement.load(out).findings["overview"]
    assert found["length_s"] == pytest.approx(found["end_s"] - found["start_s"])
    assert found["transports"]["udp"]["query_ms"]["median"] == pytest.approx(40.6, abs=0.1)


def test_a_tcp_query_follows_a_truncated_answer_of_the_same_client_name_and_type() -> None:
    tcp = row("tcp", 101.0, qname="BIG.example.")
    assert overview_of(cut(100.0), tcp) == 1
    # These were sent before the truncated answer came, or long after it, or for something else.
    for other in (
        row("tcp", 100.005),
        row("tcp", 110.0),
        tcp | {"vantage": "10.0.0.9"},
        tcp | {"qname": "a.example."},
        tcp | {"qtype": "A"},
    ):
        assert overview_of(cut(100.0), other) == 0
    # The connection was opened before, and its query came after.
    early = row("tcp", 99.0, connect_ms=20.0, query_ms=10.0, total_ms=2010.0)
    assert overview_of(cut(100.0), early) == 1


def overview_of(*rows: dict[str, Any]) -> int:
    found = measured(*rows).findings["overview"]
    return int(found["tcp_after_truncated"])


def test_codes_questions_times_and_connections() -> None:
    rows = [cut(100.0 + n, qname=f"{n % 4}.example.") for n in range(9)]
    rows += [row("udp", 110.0, rcode="NXDOMAIN"), row("udp", 111.0, rcode="SERVFAIL")]
    rows += [row("udp", 112.0, rcode="NXDOMAIN")]
    rows += [row("tcp", 160.0, float(ms)) for ms in range(1, 102)]
    peer = {"vantage": "10.0.0.1", "target": "10.0.0.2", "transport": "tcp", "started_s": 160.0}
    opened = [{**peer, "connection": n, "exchanges": n} for n in (0, 1, 2)]
    lines = say_overview(measured(*rows, connections=opened))
    assert lines == [
        "captured 1970-01-01 00:01:40 to 00:02:40 UTC, 60.1 s",
        "udp: 2 NXDOMAIN, 1 SERVFAIL, of 12 answers",
        "udp: 9 of 12 answers truncated, most for 0.example. TXT (3), 1.example. TXT (2), "
        "2.example. TXT (2)",
        "tcp: 0 of 101 queries came within 5 s after a truncated udp answer to the same client, "
        "name and type",
        "tcp: 1.5 queries per connection, at most 2, on 2 connections",
        "tcp: 1 connection without a query",
        "from query to reply: tcp median 51.00 ms, 95 % 96.00 ms; udp median 10.00 ms, "
        "95 % 10.00 ms",
    ]


def test_there_is_no_line_about_nothing() -> None:
    assert say_overview(measured(row("udp", 100.0))) == [
        "captured 1970-01-01 00:01:40 to 00:01:40 UTC, 0.01 s",
        "from query to reply: udp median 10.00 ms, 95 % 10.00 ms",
    ]
    nothing = read_captures([DATA / "nsd3213-soa.pcapng"])
    assert not any("truncated" in line for line in say_overview(nothing))


def test_the_length_is_the_captures_and_not_the_readings() -> None:
    """In tshark, the first query is at 01:42:07.849, and the last packet 1.01 s later."""
    measurement = read_captures([DATA / "unbound-big.pcapng"])
    assert measurement.document()["end_s"] == pytest.approx(1.0, abs=0.05)
    assert measurement.wall["reading_s"] > 0.0


def test_where_a_capture_was_made_has_a_reason() -> None:
    near = read_captures([DATA / "unbound-big.pcapng"]).findings
    assert near["watched_near"] == "client"
    assert near["watched_near_because"].startswith("handshakes wait 4")
    nothing = read_captures([DATA / "kdig-udp.dnstap"]).findings
    assert nothing["watched_near"] == "unknown"
    assert nothing["watched_near_because"] == "no TCP handshake was captured whole"
    half = pl.DataFrame({"syn_ms": [20.0], "ack_ms": [21.0]})
    assert "an end is near only if" in watched_near(half)["watched_near_because"]
