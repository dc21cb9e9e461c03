"""Verdicts on real servers of today and on an emulated old one, 40 ms away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from narrows.probe import Plan, Target, probe
from narrows.results import Measurement
from narrows.testbed import (
    SERVER,
    SERVERS,
    Bed,
    Crowd,
    Link,
    OldServer,
    bed,
    crowd,
    emulated,
    missing,
    real,
)

pytestmark = pytest.mark.alone
"""A busy machine can delay eight answers by more than a verdict tolerates."""

CLIENT, OTHERS = "10.9.0.40", "10.9.0.41"


@pytest.fixture(scope="module")
def path() -> Iterator[Bed]:
    if reason := missing():
        pytest.skip(reason)
    with bed([Link(CLIENT, 40.0), Link(OTHERS, 40.0)]) as made:
        yield made


def asked(path: Bed, **settings: Any) -> Measurement:
    usual = {"count": 8, "interval_s": 0.0, "sources": (CLIENT,)}
    with path.client.inside():
        return probe(Plan((Target("server", SERVER),), **{**usual, **settings}))


def verdict(found: Measurement) -> str:
    return str(found.findings["verdicts"][0]["name"])


@pytest.mark.parametrize("program", SERVERS)
def test_servers_of_today_write_once(path: Bed, program: str) -> None:
    if reason := missing([program]):
        pytest.skip(reason)
    with real(path, program):
        found = asked(path)
    assert verdict(found) == "one-write", found.findings
    assert found.exchanges.filter(transport="tcp")["segments"].to_list() == [1] * 8


@pytest.mark.parametrize(
    ("writing", "name", "sizes"),
    [
        ("once", "one-write", [747]),
        ("writev", "one-write", [747]),
        ("cork", "one-write", [747]),
        ("two", "two-writes", [2, 745]),
        ("two-nodelay", "two-writes-at-once", [2, 745]),
        ("byte", "split-length", [1, 746]),
    ],
)
def test_ways_of_writing(path: Bed, writing: Any, name: str, sizes: list[int]) -> None:
    with emulated(path, OldServer(writing=writing)):
        found = asked(path)
    assert verdict(found) == name, found.findings
    assert found.exchanges.filter(transport="tcp")["segment_bytes"].to_list() == [sizes] * 8


def test_our_own_late_acknowledgement_is_named(path: Bed) -> None:
    with emulated(path, OldServer()):
        assert verdict(asked(path, late_acknowledgements=True)) == "delayed-acknowledgement"


def test_a_fixed_delay_over_tcp(path: Bed) -> None:
    with emulated(path, OldServer(writing="once", tcp_delay_ms=20.0)):
        assert verdict(asked(path)) == "fixed-delay"


def test_full_slots_and_a_full_backlog_are_told_apart(path: Bed) -> None:
    many = Crowd(60, OTHERS, hold_s=0.3, think_s=0.2)
    with emulated(path, OldServer(slots=20, backlog=256)), crowd(path, many):
        assert verdict(asked(path, count=12)) == "slots-full"
    with emulated(path, OldServer(slots=4, backlog=1)), crowd(path, many):
        assert verdict(asked(path, count=8, timeout_s=2.0)) == "backlog-full"
