"""The gateway bench's plan, its client without a kernel, and its flood's numbers: without root."""

from __future__ import annotations

import struct
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from gateway.benchmarks import lab, plan, turns, wire
from gateway.benchmarks.beds import Arm
from gateway.benchmarks.kept_connections import at_equal_waits, interval
from gateway.benchmarks.servers import zone_text

ARMS = [
    Arm(server, transport)
    for server, transports in {
        "bind": ("udp", "tcp", "tcp-kept", "gateway", "gateway-axfr", "gateway-fin"),
        "knot": ("udp", "tcp", "gateway", "xdp-udp", "xdp-tcp"),
    }.items()
    for transport in transports
]


@pytest.mark.parametrize("form", [plan.FULL, plan.QUICK])
def test_each_round_has_every_arm_at_every_rate_once(form: plan.Form) -> None:
    for part in plan.parts(form, ARMS):
        found = plan.intervals(part, seed=1)
        wanted = {(arm, rate) for rate in part.rates for arm in part.arms_at(rate)}
        for number in range(1, part.rounds + 1):
            turn = Counter((i.arm, i.rate) for i in found if i.round == number)
            assert turn == Counter(wanted)


def test_a_bench_whose_time_is_up_has_the_short_parts_whole() -> None:
    lengths = [part.length_s for part in plan.parts(plan.FULL, ARMS)]
    assert lengths[-1] == max(lengths)


def test_rounds_differ_in_order_and_arms_share_arrivals() -> None:
    part = plan.parts(plan.FULL, ARMS)[0]
    found = plan.intervals(part, seed=1)
    turns = [[(i.arm, i.rate) for i in found if i.round == number] for number in (1, 2)]
    assert turns[0] != turns[1]
    assert len({i.seed for i in found if i.round == 1}) == 1
    assert found == plan.intervals(part, seed=1)


def test_what_is_compared_is_measured_one_after_the_other() -> None:
    for part in plan.parts(plan.FULL, ARMS):
        groups = [
            (rate, [i.arm for i in group])
            for (_, rate), group in groupby(
                plan.intervals(part, seed=1), lambda i: (i.round, i.rate)
            )
        ]
        assert len(groups) == part.rounds * len(part.rates)
        for rate, arms in groups:
            assert Counter(arms) == Counter(part.arms_at(rate))


@pytest.mark.parametrize("form", [plan.FULL, plan.QUICK])
def test_all_arms_of_a_server_are_compared_in_the_same_rounds(form: plan.Form) -> None:
    # Ratios to UDP and to the kernel's TCP are of arms of one round: a server's arms share a part.
    for server in ("bind", "knot"):
        own = {arm for arm in ARMS if arm.server == server}
        for rate in form.fast:
            places = [
                own & set(part.arms_at(rate))
                for part in plan.parts(form, ARMS)
                if rate in part.rates and not part.flood
            ]
            assert [arms for arms in places if arms] == [own]


def test_the_papers_rates_are_for_its_four_curves() -> None:
    parts = {part.name: part for part in plan.parts(plan.FULL, ARMS)}
    paper = parts["the paper's rates"]
    assert paper.rates == tuple(range(50, 501, 50))
    assert {str(arm) for arm in paper.arms} == {
        "bind udp",
        "bind tcp",
        "bind gateway",
        "bind gateway-axfr",
    }
    assert (paper.rounds, paper.seconds) == (20, 10.0)
    assert not any(arm.load == "udp" for arm in parts["saturation"].arms)


def test_a_missing_header_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab.os, "geteuid", lambda: 0)
    monkeypatch.setattr(lab.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(lab, "program", lambda name: Path("/bin") / name)
    monkeypatch.setattr(lab, "HEADERS", {"/nowhere/bpf_helpers.h": "libbpf-dev"})
    with pytest.raises(lab.LabError) as found:
        lab.require("make bench-gateway", ["named"])
    assert str(found.value) == "no /nowhere/bpf_helpers.h; hint: apt-get install libbpf-dev"


def test_what_the_compiler_says_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clang = tmp_path / "clang"
    clang.write_text("#!/bin/sh\necho 'x.c:1: no such header' >&2\necho '1 error.' >&2\nexit 1\n")
    clang.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(lab.LabError) as found:
        lab.compiled("switches", tmp_path)
    assert str(found.value).splitlines() == [
        "switches.bpf.c does not compile; clang says:",
        "x.c:1: no such header",
        "1 error.",
    ]


def test_a_query_is_as_rfc_1035_has_it() -> None:
    data = wire.query("h0000001.example.net", 16, 4242)
    assert int.from_bytes(data[:2], "big") == len(data) - 2
    assert struct.unpack("!HHHHHH", data[2:14]) == (4242, 0x100, 1, 0, 0, 0)
    assert data[14:] == b"\x08h0000001\x07example\x03net\0" + struct.pack("!HH", 16, 1)


def test_the_internet_checksum_is_rfc_1071s() -> None:
    # The RFC's example: the sum of these words is ddf2.
    assert wire._checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2


def test_names_have_the_papers_twenty_characters() -> None:
    names = [line.split()[0] for line in zone_text().splitlines() if line.startswith("h0")]
    assert {len(f"{name}.example.net") for name in names} == {20}


def test_a_link_counts_the_queries_of_its_frames() -> None:
    query = len(wire.query("h0000001.example.net", 1, 4242))
    # A segment with two queries, one with one, and an acknowledgement: IPv4 and TCP with
    # timestamps have 20 and 32 octets (RFC 791; RFC 9293; RFC 7323, appendix A).
    assert turns.queries_of(3 * 52 + 3 * query, 3) == 3


@pytest.mark.parametrize(("count", "first", "last"), [(9, 2, 8), (12, 3, 10), (20, 6, 15)])
def test_the_interval_of_a_median_is_that_of_order_statistics(
    count: int, first: int, last: int
) -> None:
    # The ranks of tables for 95 % (for one, Campbell and Gardner, BMJ 296:1454, 1988).
    assert interval([float(rank) for rank in range(count, 0, -1)]) == (first, last)


def test_costs_are_compared_where_as_many_frames_come_at_once() -> None:
    waits = [0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 1.6]
    # 2 % more for each query, and what the waits cost.
    costs = [1.02 * wait**0.25 for wait in waits]
    assert at_equal_waits(costs, waits) == (1.02, (1.02, 1.02))
    assert at_equal_waits(costs[:7], waits[:7]) is None
