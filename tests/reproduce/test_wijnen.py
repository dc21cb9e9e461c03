"""The reproduction of Wijnen 2012: metrics of pairs, the reference, and a run of the lab."""

from __future__ import annotations

import io
import math
import threading
from pathlib import Path
from typing import Any

import dns.message
import dns.rdatatype
import dns.rrset
import dns.zone
import pytest

from narrows.reproduce import reproduce, select
from narrows.reproduce.claims import Verdict
from narrows.reproduce.output import print_outcome, write
from narrows.reproduce.wijnen_2012 import PAPER, measure
from narrows.reproduce.wijnen_2012.cells import (
    BIND_2012,
    CELLS,
    CHOICES,
    NEW,
    NSD_2012,
    OLD,
    OLD_10,
)
from narrows.reproduce.wijnen_2012.measure import execute, metrics_of, peak
from narrows.reproduce.wijnen_2012.reference import captured, reference
from narrows.reproduce.wijnen_2012.root_zone import soa_reply_bytes, zone_file
from narrows.reproduce.wijnen_2012.settings import RTTS_MS, Settings, address
from narrows.testbed import Requests, missing


def pair(vantage: str, number: int, udp: float, tcp: float | None) -> list[dict[str, Any]]:
    shared = {"vantage": vantage, "round": number, "segments": None, "segment_bytes": None}
    outcome = "timeout" if tcp is None else "answered"
    return [
        {**shared, "transport": "udp", "total_ms": udp, "outcome": "answered"},
        {**shared, "transport": "tcp", "total_ms": tcp, "outcome": outcome},
    ]


def test_metrics_of_pairs_that_one_can_check_by_hand() -> None:
    rows = [
        *pair("a", 0, 10.0, 20.0),
        *pair("a", 1, 10.0, 20.0),
        *pair("b", 0, 20.0, 40.0),
        *pair("c", 0, 40.0, 480.0),
        *pair("c", 1, 40.0, None),
    ]
    found = metrics_of(rows)
    assert (found["pairs"], found["median"], found["peak"]) == (4.0, 2.0, 2.0)
    assert (found["at_2"], found["above_4"], found["above_10"]) == (75.0, 25.0, 25.0)
    assert found["failed"] == pytest.approx(20.0)
    edges, percent = found.curves["histogram"]
    assert percent[edges.index(pytest.approx(2.0))] == 75.0


def test_a_fixed_delay_and_another_place_differ_in_slope_and_intercept() -> None:
    fixed = metrics_of([row for rtt in RTTS_MS for row in pair(str(rtt), 0, rtt, 2 * rtt + 30)])
    assert (fixed["slope"], fixed["intercept_ms"]) == pytest.approx((2.0, 30.0))
    farther = metrics_of([row for rtt in RTTS_MS for row in pair(str(rtt), 0, rtt, 2.5 * rtt)])
    assert (farther["slope"], farther["intercept_ms"]) == pytest.approx((2.5, 0.0), abs=1e-9)


def test_the_half_sample_mode_is_the_densest_place() -> None:
    assert peak([2.0]) == 2.0
    assert peak([1.0, 2.99, 3.0, 3.01, 3.02, 50.0, 60.0]) == pytest.approx(3.0, abs=0.02)


def test_the_reference_has_the_peaks_of_its_servers() -> None:
    """As computed from the same pairs when they were measured: 3.00 and 2.00, 5.66 under load."""
    assert reference("nsd-3.2.13-quiet")["median"] == pytest.approx(3.00, abs=0.01)
    assert reference("nsd-3.2.14-quiet")["median"] == pytest.approx(2.00, abs=0.01)
    assert reference("nsd-3.2.13-tcp-count-10-hold-0.14")["median"] == pytest.approx(5.6, abs=0.1)
    assert reference("nsd-3.2.13-tcp-count-10-hold-0.14")["failed"] == pytest.approx(100 * 2 / 168)


def test_the_captures_show_two_segments_of_the_old_server_and_one_of_the_new() -> None:
    """As tshark shows them: 2 and 857 bytes from NSD 3.2.13, 859 from NSD 3.2.14."""
    old, new = captured("nsd-3.2.13-soa"), captured("nsd-3.2.14-soa")
    assert (old["segments"], old["first_bytes"], old["second_bytes"]) == (2.0, 2.0, 857.0)
    assert (new["segments"], new["first_bytes"]) == (1.0, 859.0)


def test_queries_without_an_answer_are_lost() -> None:
    rows = pair("a", 0, 10.0, 20.0)
    assert metrics_of(rows, Requests(asked=200, answered=199))["lost"] == 0.5
    assert metrics_of(rows, Requests(asked=200, answered=200))["lost"] == 0.0
    assert math.isnan(metrics_of(rows)["lost"]), "nobody counted"
    assert math.isnan(metrics_of(rows, Requests(200, 199, missed=1))["lost"])


def test_every_cell_and_choice_sets_what_there_is() -> None:
    for cell in CELLS:
        Settings.read(cell.set)
        for choice in CHOICES:
            if choice.touches(cell.name):
                Settings.read({**cell.set, **choice.settings(cell)})
    with pytest.raises(ValueError, match="no setting colour"):
        Settings.read({"colour": "red"})
    assert len({address(rtt) for rtt in RTTS_MS}) == len(RTTS_MS)


def test_without_a_lab_it_says_why_and_tests_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measure, "missing", lambda programs=(): "needs root")
    outcome = reproduce(PAPER, seeds=2)
    assert outcome.complete and "needs root" in outcome.source
    assert {judged.verdict for judged in outcome.judged()} == {Verdict.NOT_TESTED}
    said = io.StringIO()
    print_outcome(outcome, said)
    assert "needs root" in said.getvalue()
    write([outcome], tmp_path / "out")


@pytest.mark.slow
def test_old_and_new_writing_differ_by_a_round_trip() -> None:
    if reason := missing():
        pytest.skip(reason)
    ((paper, claims),) = select(["R7"])
    outcome = reproduce(paper, claims=claims, seeds=2, quick=True, jobs=1)
    assert not outcome.failures
    assert all(judged.verdict is not Verdict.FAILS for judged in outcome.judged())
    old = execute(paper, paper.cell(OLD), {"rounds": "2"}, 1, threading.Event())
    assert (old["segments"], old["first_bytes"], old["second_bytes"]) == (2.0, 2.0, 745.0)
    (new,) = outcome.values(NEW, "segments")[:1]
    assert new == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "payload"), [(BIND_2012, 759.0), (NSD_2012, 747.0)])
def test_the_root_zone_of_2012_gives_the_paper_s_747_bytes_unless_bind_points_at_the_root(
    name: str, payload: float
) -> None:
    """BIND 9.18 writes a pointer of two bytes, not the root's one, for 12 of the 13 NS records."""
    cell = PAPER.cell(name)
    if reason := measure.lacks(cell):
        pytest.skip(reason)
    found = execute(PAPER, cell, {**cell.set, "rounds": "1"}, 1, threading.Event())
    assert (found["segments"], found["first_bytes"]) == (1.0, payload)


@pytest.mark.slow
def test_a_full_server_answers_every_query_that_arrives() -> None:
    if reason := missing():
        pytest.skip(reason)
    cell = PAPER.cell(OLD_10)
    found = execute(PAPER, cell, {**cell.set, "rounds": "1"}, 1, threading.Event())
    assert found["lost"] == 0.0


@pytest.mark.slow
def test_an_interrupt_ends_a_run() -> None:
    if reason := missing():
        pytest.skip(reason)
    stop = threading.Event()
    stop.set()
    with pytest.raises(RuntimeError, match="interrupted"):
        execute(PAPER, PAPER.cell(OLD_10), {"rounds": "50"}, 1, stop)


def test_the_root_zone_of_2012_makes_the_paper_s_745_bytes() -> None:
    """A message of dnspython has the same length, made from the names and addresses of 2012."""
    query = dns.message.make_query(".", "SOA", use_edns=False)
    reply = dns.message.make_response(query)
    soa = "a.root-servers.net. nstld.verisign-grs.com. 2012100400 1800 900 604800 86400"
    hosts = [f"{letter}.root-servers.net." for letter in "abcdefghijklm"]
    reply.answer.append(dns.rrset.from_text(".", 86400, "IN", "SOA", soa))
    reply.authority.append(dns.rrset.from_text(".", 518400, "IN", "NS", *hosts))
    for host in hosts:
        reply.additional.append(dns.rrset.from_text(host, 3600000, "IN", "A", "192.0.2.1"))
    # RSSAC and IANA's hints of 2012: B, C, E and G had no IPv6 yet.
    for host in hosts:
        if host[0] not in "bceg":
            reply.additional.append(dns.rrset.from_text(host, 3600000, "IN", "AAAA", "2001:db8::1"))
    assert soa_reply_bytes() == len(reply.to_wire()) == 745


def test_the_zone_file_holds_what_the_reply_of_2012_held() -> None:
    """The paper's capture counts 1 answer, 13 authority and 22 additional records (1/13/22)."""
    zone = dns.zone.from_text(zone_file(), origin=".", relativize=False)
    assert len(zone.get_rdataset(".", "NS") or ()) == 13
    kinds = (dns.rdatatype.A, dns.rdatatype.AAAA)
    assert sum(1 for kind in kinds for _ in zone.iterate_rdatas(kind)) == 22
    assert len(zone.get_rdataset(".", "SOA") or ()) == 1
