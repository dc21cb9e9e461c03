"""Each threshold of a verdict, at it and just beyond; the round trip is 40 ms unless a row says."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.probe.evidence import spread
from narrows.probe.verdict import judge

from .rows import RTT, tcp, udp, unanswered

Rows = list[dict[str, Any]]
TEN_UDP = [udp() for _ in range(10)]
REFUSED = unanswered("refused", "connect")
FAILED = unanswered("handshake-failed", "secure", RTT)
UNREACHABLE = unanswered("unreachable", "connect")
NOT_ASKED = unanswered("not-asked", "connect")
CLOSED = unanswered("closed", "query", RTT)
WRONG = unanswered("mismatched", "query", RTT)
CUT = unanswered("timeout", "reply", RTT)
CUT_OFF = unanswered("closed", "reply", RTT)
NEVER = unanswered("timeout", "query", RTT)
UNCONNECTED = unanswered("timeout", "connect")
LATE_CONNECT = tcp(connect=1040.0)
LOST_UDP = unanswered("timeout", "query", transport="udp")


def name_of(rows: Rows, over_udp: Rows | None = None, transport: str = "tcp") -> str:
    return judge(TEN_UDP if over_udp is None else over_udp, rows, transport=transport).name


def whole(ms: float) -> dict[str, Any]:
    """A reply without segments: the time from the query to its last byte."""
    times = {"first_byte_ms": None, "prefix": None, "query_ms": ms, "total_ms": RTT + ms}
    return tcp() | times


@pytest.mark.parametrize(
    ("failed", "name"),
    [
        (REFUSED, "refuses"),
        (FAILED, "handshake-fails"),
        (UNREACHABLE, "unreachable"),
        (NOT_ASKED, "not-asked"),
    ],
)
def test_more_than_half_of_the_connections_decide(failed: dict[str, Any], name: str) -> None:
    assert name_of([tcp()] * 4 + [failed] * 6) == name
    assert name_of([tcp()] * 5 + [failed] * 5) == "one-write"


def test_a_silent_server_answers_no_syn_at_all() -> None:
    assert name_of([UNCONNECTED] * 10) == "silent"
    assert name_of([UNCONNECTED] * 9 + [tcp()]) == "backlog-full"


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (CLOSED, "closes"),
        (WRONG, "wrong-reply"),
        (CUT, "unfinished"),
        (LATE_CONNECT, "backlog-full"),
        (UNCONNECTED, "backlog-full"),
        (NEVER, "slots-full"),
    ],
)
def test_one_in_five_is_no_accident(row: dict[str, Any], name: str) -> None:
    """`SOME` is 20 %."""
    assert name_of([tcp()] * 8 + [row] * 2) == name
    assert name_of([tcp()] * 161 + [row] * 39) == "one-write"


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (CUT, "unfinished"),
        (LATE_CONNECT, "backlog-full"),
        (NEVER, "slots-full"),
    ],
)
def test_a_path_that_loses_a_third_as_much_over_udp_explains_it(
    row: dict[str, Any], name: str
) -> None:
    """One of four over UDP against 75 and 77 of 100 over TCP."""
    assert name_of([tcp()] * 25 + [row] * 75, [udp()] * 3 + [LOST_UDP]) != name
    assert name_of([tcp()] * 23 + [row] * 77, [udp()] * 3 + [LOST_UDP]) == name


def test_most_closed_connections_within_a_reply_are_said_so() -> None:
    def sentence(rows: Rows) -> str:
        return judge(TEN_UDP, rows).sentence

    assert "within a reply" in sentence([CUT_OFF] * 3 + [CLOSED] * 2)
    assert "without an answer" in sentence([CUT_OFF] * 2 + [CLOSED] * 2)


@pytest.mark.parametrize(("rtt", "most"), [(40.0, 4.0), (100.0, 4.0), (200.0, 8.0)])
def test_a_wait_of_four_milliseconds_or_four_percent_is_ordinary(rtt: float, most: float) -> None:
    rows = [tcp(connect=rtt, first=rtt + most)] * 10
    assert name_of(rows, [udp(rtt)] * 10) == "one-write"
    rows = [tcp(connect=rtt, first=rtt + most + 0.1)] * 10
    assert name_of(rows, [udp(rtt)] * 10) == "fixed-delay"


def test_a_steady_wait_varies_by_a_tenth() -> None:
    """Nine waits around 100 ms; the quartiles lie 10 and 10.25 ms apart."""
    steady = [RTT + wait for wait in (95.0, 95.0, 95.0, 100.0, 100.0, 100.0, 105.0, 105.0, 105.0)]
    assert name_of([tcp(first=ms) for ms in steady]) == "fixed-delay"
    uneven = [ms if ms < RTT + 105.0 else ms + 0.25 for ms in steady]
    assert name_of([tcp(first=ms) for ms in uneven]) == "slots-full"
    # One answer that comes much earlier than the others was not held by a fixed delay.
    assert name_of([tcp(first=RTT + 90.0)] + [tcp(first=RTT + 100.0)] * 7) == "fixed-delay"
    assert name_of([tcp(first=RTT + 89.75)] + [tcp(first=RTT + 100.0)] * 7) == "slots-full"


def test_late_is_half_a_round_trip() -> None:
    assert name_of([tcp()] * 6 + [tcp(first=60.0)] * 4) == "one-write"
    assert name_of([tcp()] * 6 + [tcp(first=60.5)] * 4) == "slots-full"
    # Not below 4 ms.
    near = [tcp(connect=2.0, first=2.0)] * 6
    assert name_of([*near, *[tcp(connect=2.0, first=6.0)] * 4], [udp(2.0)] * 10) == "one-write"
    assert name_of([*near, *[tcp(connect=2.0, first=6.5)] * 4], [udp(2.0)] * 10) == "slots-full"


def test_late_over_udp_is_as_late_as_over_tcp() -> None:
    """Four of ten over TCP are late; over UDP, one of ten explains less, and two explain them."""
    late = [tcp()] * 6 + [tcp(first=90.0)] * 4
    assert name_of(late, [udp()] * 8 + [udp(60.5)] * 2) == "one-write"
    assert name_of(late, [udp()] * 8 + [udp(60.0)] * 2) == "slots-full"
    assert name_of(late, [udp()] * 9 + [udp(60.5)]) == "slots-full"
    # Three times as many are not enough.
    three = [tcp()] * 7 + [tcp(first=90.0)] * 3
    assert name_of(three, [udp()] * 9 + [udp(90.0)]) == "one-write"


def test_a_lost_syn_takes_nine_tenths_of_a_second() -> None:
    """RFC 6298 (2.1): the first timeout is a second; a tenth is for a path that gets faster."""
    verdict = judge(TEN_UDP, [tcp()] * 6 + [tcp(connect=RTT + 900.0)] * 4)
    assert verdict.name == "backlog-full"
    assert "4 of 10 connect late (by 1 s)" in verdict.sentence
    assert name_of([tcp()] * 6 + [tcp(connect=RTT + 899.0)] * 4) == "one-write"


def test_two_queries_that_were_not_heard_mean_a_full_backlog() -> None:
    late = [tcp(first=90.0, query_retransmissions=0)] * 3
    unheard = tcp(first=440.0, query_retransmissions=1)
    assert name_of([tcp()] * 5 + late + [unheard] * 2) == "backlog-full"
    assert name_of([tcp()] * 6 + late + [unheard]) == "slots-full"
    # One of four over UDP against 75 and 77 of 100 over TCP.
    lossy = [udp()] * 3 + [LOST_UDP]
    assert name_of([tcp()] * 20 + late * 2 + [unheard] * 74, lossy) == "slots-full"
    assert name_of([tcp()] * 23 + [unheard] * 77, lossy) == "backlog-full"
    # Two of eight over TCP, as one of twelve is lost over UDP.
    assert name_of([tcp()] * 3 + late + [unheard] * 2, [udp()] * 11 + [LOST_UDP]) == "slots-full"


@pytest.mark.parametrize(("over_udp", "name"), [(48.0, "one-write"), (48.3, "elsewhere")])
def test_a_fifth_of_the_nearer_round_trip_is_another_place(over_udp: float, name: str) -> None:
    assert name_of([tcp()] * 10, [udp(over_udp)] * 10) == name
    # The same with UDP nearer.
    rows = [tcp(connect=over_udp, first=over_udp)] * 10
    assert name_of(rows, [udp(40.0)] * 10) == name


def test_four_milliseconds_are_no_other_place() -> None:
    assert name_of([tcp(connect=2.0, first=2.0)] * 10, [udp(6.0)] * 10) == "one-write"
    assert name_of([tcp(connect=2.0, first=2.0)] * 10, [udp(6.5)] * 10) == "elsewhere"
    # Nor are 20 ms, nearer than a millisecond.
    for over_udp, name in ((20.5, "one-write"), (20.75, "elsewhere")):
        assert name_of([tcp(connect=0.5, first=0.5)] * 10, [udp(over_udp)] * 10) == name
        assert name_of([tcp(connect=over_udp, first=over_udp)] * 10, [udp(0.5)] * 10) == name


@pytest.mark.parametrize(
    ("gap", "name"),
    [
        (19.9, "two-writes-at-once"),
        (20.0, "two-writes"),
        (69.9, "two-writes"),
        # A round trip, and three quarters of the 40 ms of Linux's delayed acknowledgement.
        (70.0, "delayed-acknowledgement"),
    ],
)
def test_the_gap_after_the_length(gap: float, name: str) -> None:
    assert name_of([tcp(gap=gap, prefix="alone")] * 10) == name


@pytest.mark.parametrize(
    ("ms", "name"),
    [
        (44.0, "one-write"),
        (69.9, "fixed-delay"),
        (70.0, "two-writes"),
        (90.0, "two-writes"),
        (90.1, "fixed-delay"),
    ],
)
def test_without_segments_a_round_trip_more_is_a_second_write(ms: float, name: str) -> None:
    """Give or take a quarter."""
    assert name_of([whole(ms)] * 10) == name


@pytest.mark.parametrize(("median", "name"), [(50.0, "one-write"), (50.25, "unknown")])
def test_without_segments_a_quarter_of_a_round_trip_is_noise(median: float, name: str) -> None:
    """Times that vary too much for a fixed delay."""
    times = (40.0, 41.0, 42.0, 43.0, median, 55.0, 56.0, 57.0, 58.0)
    assert name_of([whole(ms) for ms in times]) == name


def test_nearer_than_a_millisecond_times_say_nothing() -> None:
    def verdict(rtt: float) -> str:
        rows = [tcp(connect=rtt, first=rtt, gap=rtt, prefix="alone")] * 10
        return judge([udp(rtt)] * 10, rows).sentence

    assert "too near" in verdict(0.99)
    assert "too near" not in verdict(1.0)


def test_a_reply_that_waits_for_an_acknowledgement_waits_three_quarters_of_a_round_trip() -> None:
    def held(wait: float) -> str:
        return name_of([tcp(first=RTT + wait, secure_ms=41.0)] * 5, transport="tls")

    assert held(30.0) == "held-back"
    assert held(29.9) == "fixed-delay"


def test_a_slow_server_waits_less_than_twice_as_long_over_tcp() -> None:
    """A wait of 20 ms; UDP's answer takes 10 ms longer than the handshake, or a little more."""
    assert name_of([tcp(first=60.0)] * 10, [udp(50.0)] * 10) == "fixed-delay"
    assert name_of([tcp(first=60.0)] * 10, [udp(50.1)] * 10) == "slow-server"


def test_near_servers_are_late_only_beyond_chance() -> None:
    """4 late of 15 against none of 15 have a chance of 0.0498, and 4 of 16 one of 0.0506.

    This is Fisher's exact test: C(15, 4) / C(30, 4) and C(16, 4) / C(32, 4); the bound is 5 %. With
    one late over UDP, it is 0.0494 for 6 of 15 against 1 of 14, and 0.0503 for 5 of 14 against 1 of
    17.
    """
    near, late = tcp(connect=0.1, first=0.15), tcp(connect=0.1, first=20.2)
    quiet, slow = udp(0.12), udp(20.5)
    assert name_of([near] * 11 + [late] * 4, [quiet] * 15) == "slots-full"
    assert name_of([near] * 12 + [late] * 4, [quiet] * 16) == "one-write"
    assert name_of([near] * 9 + [late] * 6, [quiet] * 13 + [slow]) == "slots-full"
    assert name_of([near] * 9 + [late] * 5, [quiet] * 16 + [slow]) == "one-write"
    # 20 ms is the bound for them.
    barely = tcp(connect=0.1, first=20.0)
    assert name_of([near] * 6 + [barely] * 4, [udp(0.12)] * 10) == "one-write"


def test_the_spread_is_between_the_quartiles() -> None:
    """R's default quantiles, its type 7: they divide n - 1 steps."""
    assert spread([40.0, 0.0, 10.0, 20.0]) == 25.0 - 7.5
    assert spread([1.0, 3.0]) == 2.5 - 1.5
    assert spread([7.0]) == 0.0
    never = float("inf")
    assert spread([1.0, 2.0, 3.0, 4.0, never]) == 2.0
    assert spread([1.0, 2.0, 3.0, never]) == never
