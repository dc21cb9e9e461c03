"""Which queries pair: the article's rules, and a literal greedy pairing as oracle."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.ratio import Rules, pair_up
from narrows.ratio.pairs import questions
from narrows.results.exchanges import frame_of


def exchange(transport: str, started_s: float, **more: Any) -> dict[str, Any]:
    usual = {
        "exchange": 0,
        "vantage": "7",
        "target": "192.0.2.1",
        "server": "192.0.2.1",
        "family": 4,
        "transport": transport,
        "started_s": started_s,
        "total_ms": 10.0 if transport == "udp" else 20.0,
        "outcome": "answered",
        "qtype": "SOA",
    }
    return usual | more


def pairs(*rows: dict[str, Any], **rules: Any) -> list[tuple[float, float]]:
    """When each pair's UDP query was, and how much later its TCP query."""
    found = pair_up(frame_of("exchanges", rows), Rules(**rules)).table
    return [(row[0], row[1]) for row in found.select("started_s", "apart_s").iter_rows()]


def test_a_pair_is_at_most_150_s_apart() -> None:
    assert pairs(exchange("udp", 0), exchange("tcp", 150)) == [(0, 150)]
    assert pairs(exchange("udp", 0), exchange("tcp", 150.5)) == []
    assert pairs(exchange("udp", 200), exchange("tcp", 50)) == [(200, -150)]


def test_the_closest_pair_first_and_each_once() -> None:
    # 100 is nearer to 90 than 0 is, so 0 gets no partner although 90 is within its window.
    assert pairs(exchange("udp", 0), exchange("udp", 100), exchange("tcp", 90)) == [(100, -10)]


def test_a_cycle_gives_the_first_of_each() -> None:
    rows = [exchange("udp", 10), exchange("udp", 100), exchange("tcp", 105), exchange("tcp", 1805)]
    assert pairs(*rows, matching="cycle") == [(10, 95)]


@pytest.mark.parametrize(
    "other",
    [
        {"vantage": "8"},
        {"server": "192.0.2.2", "target": "192.0.2.2"},
        {"family": 6},
        {"qtype": "TXT"},
        {"outcome": "timeout", "total_ms": None},
        {"total_ms": 0.0},
        {"reused": True},
        {"round": 3},
        {"transport": "tls"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_differs_does_not_pair(other: dict[str, Any]) -> None:
    assert pairs(exchange("udp", 0), exchange("tcp", 1) | other) == []


def test_a_reply_without_its_question_has_its_measurements() -> None:
    rows = [
        exchange("udp", 0, measurement=1, qtype=None, vantage="8"),
        exchange("udp", 0, measurement=1),
        exchange("tcp", 9, measurement=2, vantage="8"),
    ]
    assert pairs(*rows) == [(0, 9)]


def test_families_and_codes_can_be_chosen() -> None:
    rows = [exchange("udp", 0, rcode="REFUSED"), exchange("tcp", 1, rcode="NOERROR")]
    assert pairs(*rows) == [(0, 1)]
    assert pairs(*rows, noerror_only=True) == []
    assert pairs(*rows, families=(6,)) == []


def test_everything_that_is_not_in_a_pair_is_counted() -> None:
    rows = [
        exchange("udp", 0),
        exchange("tcp", 1),
        exchange("tcp", 5_000),
        exchange("udp", 9_000, outcome="timeout", total_ms=None),
        exchange("tcp", 9_000, outcome="not-asked", total_ms=None),
    ]
    found = pair_up(frame_of("exchanges", rows))
    assert found.count == 1
    assert {(part.transport, part.reason, part.exchanges) for part in found.dropped} == {
        ("udp", "timeout", 1),
        ("tcp", "not-asked", 1),
        ("tcp", "no UDP answer within 150 s", 1),
    }


def test_a_cycle_lasts_half_an_hour() -> None:
    def cycle(*times: float, **rules: Any) -> list[tuple[float, float]]:
        udp, tcp = (exchange(each, at) for each, at in zip(("udp", "tcp"), times, strict=True))
        return pairs(udp, tcp, matching="cycle", **rules)

    assert cycle(1799, 1800) == []
    assert cycle(1800, 3599, window_s=float("inf")) == [(1800, 1799)]
    assert cycle(3599, 1800, window_s=float("inf")) == [(3599, -1799)]
    assert cycle(0, 150) == [(0, 150)]
    assert cycle(0, 150.5) == []
    assert cycle(50, 70, cycle_s=60.0) == []


def test_both_versions_of_ip_count_by_default() -> None:
    rows = [exchange(transport, 0, family=6) for transport in ("udp", "tcp")]
    assert pair_up(frame_of("exchanges", rows), Rules()).count == 1


def test_each_reason_is_said_and_the_most_frequent_first() -> None:
    rows = [
        exchange("tcp", 0, family=6, rcode="NOERROR"),
        exchange("udp", 0, outcome="timeout", total_ms=None),
        exchange("udp", 0, attempts=2, replies=1, rcode="NOERROR"),
        exchange("udp", 0, total_ms=0.0),
        exchange("udp", 0, total_ms=None),
        exchange("tcp", 0, reused=True),
        exchange("udp", 0, rcode=None),
        exchange("udp", 0, rcode="REFUSED"),
        # Both attempts got a reply, and a family may be unknown.
        exchange("udp", 0, attempts=2, replies=2, family=None, rcode="NOERROR"),
        exchange("tcp", 150, reused=False, family=None, rcode="NOERROR"),
    ]
    found = pair_up(frame_of("exchanges", rows), Rules(families=(4,), noerror_only=True))
    assert found.count == 1
    assert [(part.transport, part.reason, part.exchanges) for part in found.dropped] == [
        ("udp", "without a time above zero", 2),
        ("udp", "asked more than once, where the reply may answer any attempt", 1),
        ("udp", "timeout", 1),
        ("udp", "whose code is not known", 1),
        ("udp", "with another code than NOERROR", 1),
        ("tcp", "of the other IP version", 1),
        ("tcp", "on a connection that had carried a query", 1),
    ]


def test_the_type_of_most_queries_is_that_of_the_others() -> None:
    """Of the same measurement and transport; of equally many, the first by name."""
    of = {"measurement": 1}
    rows = [exchange("udp", 0, qtype=kind, **of) for kind in ("TXT", "SOA", "TXT", None, "A")]
    rows += [exchange("tcp", 0, qtype=kind, **of) for kind in ("SOA", "A", None)]
    rows += [exchange("udp", 0, qtype=None, measurement=2)]
    asked = ["TXT", "SOA", "TXT", "TXT", "A", "SOA", "A", "A", ""]
    assert questions(frame_of("exchanges", rows)).to_list() == asked


def test_a_server_without_an_address_is_one_server() -> None:
    """Its queries are too far apart, not of different types."""
    rows = [exchange("udp", 0, server=None), exchange("tcp", 1_000, server=None)]
    (udp, tcp) = pair_up(frame_of("exchanges", rows)).dropped
    assert udp.reason == "no TCP answer within 150 s"
    assert tcp.reason == "no UDP answer within 150 s"
    rows[1] |= {"qtype": "TXT"}
    (udp, _) = pair_up(frame_of("exchanges", rows)).dropped
    assert udp.reason == "no TCP answer for the same type"
    rows[1] |= {"qtype": None}
    (udp, tcp) = pair_up(frame_of("exchanges", rows)).dropped
    assert tcp.reason == "for a type that is not known"


TIMES = st.lists(st.integers(0, 600), max_size=8)


@settings(deadline=None, max_examples=60)
@given(udp=TIMES, tcp=TIMES)
def test_pairs_are_those_of_taking_the_closest_again_and_again(
    udp: list[int], tcp: list[int]
) -> None:
    rows = [exchange("udp", at) for at in udp] + [exchange("tcp", at) for at in tcp]
    if not rows:
        return
    found = pairs(*rows)
    mine, theirs, gaps = list(udp), list(tcp), []
    while mine and theirs:
        gap = min(abs(a - b) for a in mine for b in theirs)
        if gap > 150:
            break
        gaps.append(gap)
        # Any of equally close pairs may be chosen, and the choice changes the rest, so follow the
        # found pairs.
        taken = next(
            ((a, a + apart) for a, apart in found if abs(apart) == gap and a in mine), None
        )
        assert taken is not None
        assert taken[1] in theirs
        found.remove((taken[0], taken[1] - taken[0]))
        mine.remove(int(taken[0]))
        theirs.remove(int(taken[1]))
    assert not found


def test_many_pairs_are_found_at_once() -> None:
    count = 200_000
    rows = pl.DataFrame(
        {
            "vantage": [str(number % 997) for number in range(count)] * 2,
            "transport": ["udp"] * count + ["tcp"] * count,
            "started_s": [float(number * 60) for number in range(count)]
            + [float(number * 60 + 20) for number in range(count)],
        }
    ).with_columns(
        pl.lit("192.0.2.1").alias("target"),
        pl.lit("192.0.2.1").alias("server"),
        pl.lit("answered").alias("outcome"),
        pl.lit("SOA").alias("qtype"),
        pl.lit(None, dtype=pl.String).alias("rcode"),
        pl.lit(None, dtype=pl.String).alias("site"),
        pl.lit(4, dtype=pl.UInt8).alias("family"),
        pl.lit(None, dtype=pl.UInt64).alias("measurement"),
        pl.lit(None, dtype=pl.UInt32).alias("firmware"),
        pl.lit(None, dtype=pl.UInt32).alias("round"),
        pl.lit(None, dtype=pl.Boolean).alias("reused"),
        pl.lit(None, dtype=pl.Float64).alias("connect_ms"),
        pl.lit(None, dtype=pl.Float64).alias("query_ms"),
        pl.lit(10.0).alias("total_ms"),
    )
    found = pair_up(rows)
    assert found.count == count
    assert found.table["apart_s"].unique().to_list() == [20.0]
