"""Middleboxes and captures on a real kernel, against the simulator's."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from narrows import Run, Scenario, run
from tests.captures.tshark import NEEDS_TSHARK

pytestmark = pytest.mark.slow

UDP = (
    'transport = { kind = "udp", edns_size = "4096 B", retry = ["500 ms", "1 s"] }\n'
    'messages = [{ query = "53 B", reply = "%s" }]'
)

# For each group: the direction and keys of the middlebox at its server, and the group's keys.
GROUPS = {
    "at-the-limit": ("backward", 'drop_dns_above = "1187 B"', UDP % "1187 B"),
    "above-it": ("backward", 'drop_dns_above = "1187 B"', UDP % "1188 B"),
    "whole": ("backward", "drop_fragments = true", UDP % "1400 B"),
    "in-pieces": ("backward", "drop_fragments = true", UDP % "3000 B"),
    "long-over-tcp": (
        "backward",
        'drop_dns_above = "512 B"',
        'transport = "tcp"\nmessages = [{ query = "53 B", reply = "900 B" }]',
    ),
    "no-tcp": (
        "forward",
        'block_tcp_53 = "drop"',
        'transport = { kind = "tcp", answer_timeout = "700 ms" }',
    ),
    "syns-without-data": ("forward", "drop_syn_data = true", 'transport = "tcp"'),
}


def scenario() -> Scenario:
    """Every group has a server of its own, behind a middlebox of its own."""
    text = """
name = "middleboxes"
duration = "30 s"

[monitor]
capture = ["wan.forward", "wan.backward", { link = "wan", at = "stub", snaplen = "60 B" }]

[[links]]
name = "wan"
between = ["stub", "r"]
rate = "10 Mbit/s"
delay = "10 ms"
"""
    for number, (name, (direction, middlebox, keys)) in enumerate(GROUPS.items()):
        text += f"""
[[links]]
name = "{name}"
between = ["r", "{name}"]
rate = "1 Gbit/s"
{direction} = {{ middlebox = {{ {middlebox} }} }}

[[dns]]
name = "{name}"
client = "stub"
server = "{name}"
start = "{1 + 3 * number} s"
workers = 1
queries = 1
{keys}
"""
    return Scenario.parse(text)


@pytest.fixture(scope="module")
def results(guest: str) -> tuple[Run, Run]:
    """The same on the kernel and in the simulator."""
    found = scenario()
    return run(found, backend=guest), run(found)


def test_the_same_packets_are_dropped(results: tuple[Run, Run]) -> None:
    columns = ["group", "attempt", "attempts"]
    kernel, simulated = (result.queries.select(columns).rows() for result in results)
    assert kernel == simulated
    assert {group for group, attempt, _ in kernel if attempt} == {
        *("at-the-limit", "whole", "long-over-tcp", "syns-without-data")
    }


@NEEDS_TSHARK
@pytest.mark.parametrize("link", ["wan.forward", "wan.backward"])
def test_captures_are_those_of_the_simulator(
    results: tuple[Run, Run], link: str, tmp_path: Path
) -> None:
    kernel, simulated = (_seen(result.capture(link), tmp_path, PACKET) for result in results)
    assert Counter(kernel) == Counter(simulated)
    assert results[0].host["kernel"]["flags"] == []


@NEEDS_TSHARK
def test_a_place_sees_both_directions(results: tuple[Run, Run], tmp_path: Path) -> None:
    kernel, simulated = (
        _seen(result.capture("wan@stub"), tmp_path, [*DIRECTION, *PACKET]) for result in results
    )
    assert Counter(kernel) == Counter(simulated)
    # 1 is inbound, 2 outbound; frames are cut to 60 bytes.
    for direction, link in ((1, "wan.backward"), (2, "wan.forward")):
        passed = _seen(results[0].capture(link), tmp_path, ["ip.len"])
        here = [row for row in kernel if int(row[0], 0) == direction]
        assert [(row[3],) for row in here] == passed
    for _, kept, length, *_ in kernel:
        assert int(kept) == min(60, int(length))
    times = [float(at) for (at,) in _seen(results[0].capture("wan@stub"), tmp_path, TIME)]
    assert times == sorted(times)


# Values that the simulator makes up, such as the flags of answers, are not compared.
PACKET = ["ip.len", "ip.proto", "ip.frag_offset", "tcp.flags"]
DIRECTION = ["frame.packet_flags_direction", "frame.cap_len", "frame.len"]
TIME = ["frame.time_epoch"]


def _seen(capture: bytes, folder: Path, fields: list[str]) -> list[tuple[str, ...]]:
    """What tshark reads of each IP packet."""
    path = folder / "capture.pcapng"
    path.write_bytes(capture)
    words = ["tshark", "-r", str(path), "-Y", "ip", "-T", "fields"]
    words += [word for field in fields for word in ("-e", field)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()]
