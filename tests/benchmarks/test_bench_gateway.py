"""The gateway bench's plan, its client without a kernel, and its flood's numbers: without root."""

from __future__ import annotations

import struct
import sys
from collections import Counter
from pathlib import Path

import pytest

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    from gateway import plan, wire
    from gateway.beds import Arm
    from gateway.servers import zone_text
finally:
    sys.path.remove(BENCHMARKS)

ARMS = [
    Arm(server, transport)
    for server, transports in {
        "bind": ("udp", "tcp", "gateway", "gateway-axfr", "gateway-fin"),
        "knot": ("udp", "tcp", "gateway", "xdp-udp", "xdp-tcp"),
    }.items()
    for transport in transports
]


@pytest.mark.parametrize("form", [plan.FULL, plan.QUICK])
def test_each_round_has_every_arm_at_every_rate_once(form: plan.Form) -> None:
    for part in plan.parts(form, ARMS):
        found = plan.intervals(part, seed=1)
        wanted = {(arm, rate) for arm in part.arms for rate in part.rates}
        for number in range(1, part.rounds + 1):
            turn = Counter((i.arm, i.rate) for i in found if i.round == number)
            assert turn == Counter(wanted)


def test_rounds_differ_in_order_and_arms_share_arrivals() -> None:
    part = plan.parts(plan.FULL, ARMS)[0]
    found = plan.intervals(part, seed=1)
    turns = [[(i.arm, i.rate) for i in found if i.round == number] for number in (1, 2)]
    assert turns[0] != turns[1]
    assert len({i.seed for i in found if i.round == 1}) == 1
    assert found == plan.intervals(part, seed=1)


def test_what_is_compared_is_measured_one_after_the_other() -> None:
    for part in plan.parts(plan.FULL, ARMS):
        found = plan.intervals(part, seed=1)
        for at in range(0, len(found), len(part.arms)):
            group = found[at : at + len(part.arms)]
            assert {i.arm for i in group} == set(part.arms)
            assert len({(i.round, i.rate) for i in group}) == 1


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
