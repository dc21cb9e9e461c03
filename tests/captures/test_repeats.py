"""Repeated queries and copies of packets: what is counted, and which times are known."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from narrows.captures import read_captures, say_overview
from narrows.ratio import RatioError, Rules, analyse
from narrows.results import Measurement
from tests.captures.written import SOA, Written, reply_to

REPLY = reply_to(SOA)


def read(capture: Written, folder: Path) -> Measurement:
    (folder / "written.pcap").write_bytes(capture.bytes)
    return read_captures([folder / "written.pcap"])


def repeated(capture: Written, at: float, replies: tuple[float, ...]) -> None:
    """A query that was repeated after 31 ms, and its replies over a path of 35 ms."""
    number = struct.pack("!H", round(at) // 100)
    for count, ms in enumerate((0.0, 31.0)):
        capture.message(at + ms, message=number + SOA[2:], number=round(at) // 100 + count)
    for count, ms in enumerate(replies):
        capture.message(
            at + ms, True, message=number + REPLY[2:], number=1 + round(at) // 100 + count
        )


def test_the_first_of_as_many_replies_as_attempts_answers_the_first_attempt(tmp_path: Path) -> None:
    capture = Written()
    for second in range(5):
        repeated(capture, 60_000.0 * second, (35.0, 66.0))
        capture.over_tcp(60_000.0 * second + 1000.0, 53, 35.0)
    found = read(capture, tmp_path)
    udp = found.exchanges.filter(transport="udp")
    assert set(udp.select("attempts", "replies").iter_rows()) == {(2, 2)}
    assert udp["total_ms"].to_list() == pytest.approx([35.0] * 5)
    assert udp["query_ms"].to_list() == pytest.approx([4.0] * 5)
    analysis = analyse([found], Rules(window_s=10.0))
    assert analysis.whole.peaks.quantiles[0.5] == pytest.approx(2.0)
    lines = say_overview(found)
    assert "udp: 5 queries asked more than once" in lines
    assert any(
        line.startswith("from query to reply: ") and "udp median 35.00" in line for line in lines
    )


def test_a_reply_that_may_answer_any_attempt_is_in_no_median_and_no_ratio(tmp_path: Path) -> None:
    capture = Written()
    for second in range(4):
        at = 60_000.0 * second
        if second:
            repeated(capture, at, (66.0,))
        else:
            capture.over_udp(at, 53, 35.0)
        capture.over_tcp(at + 1000.0, 53, 35.0)
    found = read(capture, tmp_path)
    udp = found.exchanges.filter(transport="udp", attempts=2)
    assert udp["total_ms"].to_list() == pytest.approx([66.0] * 3)
    assert udp["query_ms"].to_list() == pytest.approx([35.0] * 3)
    assert found.findings["overview"]["transports"]["udp"]["query_ms"]["median"] == 35.0
    said = "\n".join(say_overview(found))
    assert "udp: 3 queries asked more than once; in 3 the reply may answer any attempt" in said
    analysis = analyse([found], Rules(window_s=10.0))
    assert analysis.table["ratio"].to_list() == pytest.approx([2.0])
    dropped = {part.reason: part.exchanges for part in analysis.dropped}
    assert dropped["asked more than once, where the reply may answer any attempt"] == 3
    assert any("3 answers of" in line and "more than once" in line for line in analysis.warnings)


def test_if_all_are_repeated_the_ratio_says_so(tmp_path: Path) -> None:
    capture = Written()
    repeated(capture, 0.0, (66.0,))
    capture.over_tcp(1000.0, 53, 35.0)
    with pytest.raises(RatioError, match="udp: 1 asked more than once, where the reply may"):
        analyse([read(capture, tmp_path)])


def test_who_waited_5_s_waited_5_s(tmp_path: Path) -> None:
    capture = Written()
    for ms, back in ((0.0, False), (5000.0, False), (5001.0, True)):
        capture.message(ms, back, message=REPLY if back else SOA)
    (row,) = read(capture, tmp_path).exchanges.to_dicts()
    assert (row["attempts"], row["replies"], row["outcome"]) == (2, 1, "answered")
    assert (row["total_ms"], row["query_ms"]) == pytest.approx((5001.0, 1.0))
    assert row["started_s"] == pytest.approx(1.0)


def test_a_query_that_nobody_answers_begins_with_its_first_attempt(tmp_path: Path) -> None:
    capture = Written()
    for count in range(3):
        capture.message(5000.0 * count, number=count + 1)
    (row,) = read(capture, tmp_path).exchanges.to_dicts()
    assert (row["attempts"], row["outcome"], row["replies"]) == (3, "no-reply-seen", None)
    assert row["started_s"] == pytest.approx(1.0)


@pytest.mark.parametrize("apart_ms", [0.0, 0.02, 0.9])
def test_packets_that_were_captured_twice_count_once(tmp_path: Path, apart_ms: float) -> None:
    plain, twice = Written(), Written()
    for capture in (plain, twice):
        capture.over_udp(0.0, 53, 35.0)
        capture.over_tcp(100.0, 53, 35.0)
    twice.bytes = Written().bytes
    for ms, frame in plain.frames:
        for copy in (0.0, apart_ms):
            # A router between the two ports of a switch takes one from the time to live.
            twice.frame(ms + copy, frame[:8] + bytes([frame[8] - (copy > 0)]) + frame[9:])
    expected, found = read(plain, tmp_path), read(twice, tmp_path)
    assert found.exchanges.equals(expected.exchanges)
    assert found.connections.equals(expected.connections)
    (row,) = found.skipped.to_dicts()
    assert (row["reason"], row["records"]) == ("a packet that was captured twice", 9)


def test_a_retransmission_has_a_number_of_its_own(tmp_path: Path) -> None:
    capture = Written()
    for count, ms in enumerate((0.0, 0.5)):
        capture.message(ms, number=count + 1)
    (row,) = read(capture, tmp_path).exchanges.to_dicts()
    assert row["attempts"] == 2
