"""Verdicts about measurements that lack times or segments, as RIPE Atlas' do."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from narrows.atlas import read_atlas
from narrows.probe.verdict import judge, verdicts

from .rows import RTT, tcp, udp, whole
from .test_verdict import TEN_UDP, name_of

SAMPLES = Path(__file__).parents[2] / "samples" / "atlas"


@pytest.mark.parametrize("connect", [RTT, None])
@pytest.mark.parametrize(
    ("ms", "name"),
    [(40.0, "one-write"), (43.0, "one-write"), (80.0, "two-writes"), (300.0, "fixed-delay")],
)
def test_without_segments_the_last_byte_tells(ms: float, name: str, connect: float | None) -> None:
    """The findings of a trial: one write takes 2.0 round trips in all, two writes take 3.0."""
    assert name_of([whole(ms, connect)] * 10) == name


def test_without_segments_late_answers_do_not_hide_two_writes() -> None:
    late = [whole(80.0 + wait) for wait in (60.0, 90.0, 250.0, 700.0)]
    assert name_of([whole(80.0)] * 6 + late) == "slots-full"
    assert name_of([whole(80.0)] * 9 + late[:1]) == "two-writes"
    uneven = (80.0, 80.0, 81.0, 89.0, 89.0, 90.0, 90.0, 90.0, 91.0, 130.0)
    assert name_of([whole(ms) for ms in uneven]) == "two-writes"
    # The time of the connection is in it, so nothing says that it came at once.
    untold = [whole(80.0 + wait, None) for wait in (60.0, 90.0, 250.0, 700.0)]
    assert name_of([whole(80.0, None)] * 6 + untold) == "late"
    assert name_of([whole(80.0)] + [whole(80.0, None)] * 5 + untold) == "late"


def test_one_reply_with_segments_tells_how_a_server_writes() -> None:
    rows = [tcp(gap=40.0, prefix="alone"), *[whole(80.0)] * 4]
    assert "the length comes in a segment of its own" in judge(TEN_UDP, rows).sentence
    # The round trip is that of TCP, where it is known.
    assert name_of([whole(70.0)] * 5, [udp(44.0)] * 5) == "two-writes"


def test_whole_times_give_the_others() -> None:
    """A handshake of 40 ms, one of 41 ms for TLS, and 40 ms for the query."""
    untimed = {"query_ms": None, "first_byte_ms": None, "prefix": None}
    over_udp = [udp(total_ms=RTT) | untimed] * 3
    for rows, kind in (
        ([tcp(transport="tls", secure_ms=41.0, total_ms=121.0) | untimed] * 3, "tls"),
        ([whole(40.0, None)] * 3, "tcp"),
    ):
        metrics = judge(over_udp, rows, transport=kind).metrics
        assert [metrics[name] for name in ("udp_ms", "round_trip_ms", "wait_ms")] == [RTT, RTT, 0]
    untold = [tcp(transport="tls", total_ms=121.0) | untimed] * 3
    assert judge(over_udp, untold, transport="tls").metrics["wait_ms"] is None


def test_times_that_tell_nothing_are_unknown() -> None:
    uneven = [whole(ms) for ms in (40.0, 45.0, 52.0, 55.0, 56.0, 57.0, 57.0, 58.0, 59.0, 59.0)]
    assert name_of(uneven) == "unknown"
    assert name_of([whole(80.0, None)] * 10, []) == "unknown"
    near = [tcp(connect=0.05, first=0.1, prefix=None, transport="tls", secure_ms=3.7)] * 10
    verdict = judge([udp(0.1)] * 10, near, transport="tls")
    too_near = "it is too near to judge by times (below 1 ms)"
    assert (verdict.name, verdict.sentence) == ("unknown", too_near)


@pytest.mark.parametrize(
    ("sample", "name"), [("nsd-3.2.13-100-slots", "two-writes"), ("nsd-3.2.14", "one-write")]
)
@pytest.mark.parametrize("times", [("total_ms", "query_ms", "connect_ms"), ("total_ms",)])
def test_real_servers_measured_as_atlas_does(
    sample: str, name: str, times: tuple[str, ...]
) -> None:
    """NSD 3.2.13 writes twice, and 3.2.14 once, at 14 vantage points from 2 to 300 ms away."""
    rows = read_atlas([SAMPLES / f"{sample}.jsonl.gz"]).exchanges
    untold = {"query_ms", "connect_ms"} - set(times)
    rows = rows.with_columns(pl.lit(None, pl.Float64()).alias(column) for column in untold)
    found = verdicts(rows)
    assert [verdict.name for verdict in found] == [name] * 14
    assert not any("does not answer" in note for verdict in found for note in verdict.notes)
