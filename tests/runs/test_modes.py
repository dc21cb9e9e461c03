"""Random scenarios give the same tables in all modes of a link, with and without shortcuts.

`MODES_SEEDS=1000:3000 pytest tests/runs/test_modes.py` tries the seeds from 1000 up to 2999.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from narrows import Scenario, _core

Table = dict[str, Any]
Draw = random.Random

SEEDS = range(*map(int, os.environ.get("MODES_SEEDS", "0:40").split(":")))


def queue(draw: Draw) -> Table:
    kinds: list[Callable[[], Table]] = [
        lambda: {"kind": "pfifo", "limit": draw.choice([1, 2, 5, 100, 1000])},
        lambda: {"kind": "bfifo", "limit": draw.choice(["1500 B", "5 kB", "60 kB"])},
        lambda: {
            "kind": "red",
            "limit": draw.choice(["20 kB", "60 kB"]),
            "avpkt": "1000 B",
            "probability": draw.choice([0.02, 0.5]),
            "ecn": draw.random() < 0.5,
        },
        lambda: {"kind": "pie", "ecn": draw.random() < 0.5},
        lambda: {"kind": "blue", "limit": draw.choice([3, 20, 100])},
        lambda: {
            "kind": draw.choice(["codel", "fq-codel", "fq-pie"]),
            "limit": draw.choice([10, 1000]),
        },
        lambda: {"kind": draw.choice(["drr", "tdrr", "qsdrr"]), "limit": draw.choice([3, 100])},
        lambda: {"kind": "sfq"},
    ]
    return draw.choice(kinds)()


def link(draw: Draw, start: str, end: str) -> Table:
    rates = ["64 kbit/s", "500 kbit/s", "2 Mbit/s", "10 Mbit/s", "1 Gbit/s"]
    # Round delays and none at all make events meet at the same time.
    delay_ms = draw.choice([0, 0, 5, 20, draw.uniform(0, 80), draw.uniform(0, 80)])
    made: Table = {
        "name": start + end,
        "between": [start, end],
        "rate": draw.choice(rates),
        "delay": f"{delay_ms:.3f} ms",
        "loss": draw.choice([0, 0, 0.001, 0.02, 0.2]),
    }
    if draw.random() < 0.7:
        made["queue"] = queue(draw)
    if draw.random() < 0.3:
        shape = draw.choice(["uniform", "normal"])
        deviation = f"{draw.uniform(0, min(10, delay_ms)):.3f} ms"
        made["jitter"] = {"deviation": deviation, "distribution": shape}
    if draw.random() < 0.3:
        made["ring"] = draw.choice([{"packets": 1}, {"packets": 7}, {"bytes": "9 kB"}])
    if draw.random() < 0.3:
        made["mtu"] = draw.choice(["1280 B", "1300 B", "1492 B"])
    if draw.random() < 0.3:
        made["framing"] = "ethernet"
    if draw.random() < 0.2:
        made["middlebox"] = draw.choice(
            [
                {"drop_fragments": True},
                {"drop_dns_above": "512 B"},
                {"block_tcp_53": draw.choice(["drop", "reject"])},
                {"drop_too_big": True},
            ]
        )
    return made


CONTROLS = ["new-reno", "cubic", "bbr", "bbr-v3", "dctcp", "prague"]


def quic(draw: Draw) -> Table:
    return {"congestion": draw.choice(CONTROLS), "pacing": draw.random() < 0.5}


def traffic(draw: Draw, name: str) -> Table:
    ends = dict(zip(("sender", "receiver"), draw.sample(["a", "b"], 2), strict=True))
    over_quic = {"transport": "quic", "quic": quic(draw)}
    kinds: list[Table] = [
        {"kind": "bulk", "connections": draw.choice([1, 5]), **ends},
        {"kind": "once", "size": draw.choice(["1 B", "20 kB", "200 kB"]), **ends},
        {"kind": "on-off", "burst": "20 kB", "idle_mean": "100 ms", **ends},
        {"kind": "udp", "rate": "300 kbit/s", "packet": draw.choice(["100 B", "4 kB"]), **ends},
        {"kind": "ping", "interval": "50 ms", **ends},
        {"kind": "voip", "calls": draw.choice([1, 4]), **ends},
        {"kind": "incast", "client": "a", "servers": ["b"], "block": "20 kB", "rounds": 5},
        {"kind": "flood", "of": "queries", "source": "a", "server": "b", "per_second": 200},
        {"kind": "flood", "source": "a", "server": "b", "per_second": 200, "addresses": 50},
        {
            "kind": "page",
            "client": "a",
            "server": "b",
            "loads": 3,
            **draw.choice([{"transport": "tcp"}, {"transport": "tls"}, over_quic]),
            "objects": [
                {"name": "html", "size": "8 kB"},
                {"name": "images", "size": ["20 kB", "1 kB"], "number": 4, "after": ["html"]},
            ],
        },
    ]
    return {"name": name, **draw.choice(kinds)}


def resolvers(draw: Draw, name: str) -> Table:
    over_quic = {"kind": "quic", "quic": quic(draw)}
    return {
        "name": name,
        "client": "a",
        "server": "b",
        "workers": draw.choice([1, 5, 20]),
        "queries": draw.choice([2, 10]),
        "transport": draw.choice(["udp", "udp", "udp", "tcp", "tls", over_quic]),
        "messages": {"query": "60 B", "reply": draw.choice(["100 B", "1500 B", "9 kB"])},
    }


def drawn(seed: int) -> Table:
    """A scenario of a line of up to four links, with a bit of everything."""
    draw = Draw(seed)
    nodes = ["a", *(f"r{number}" for number in range(draw.randrange(1, 4))), "b"]
    links = [link(draw, *pair) for pair in itertools.pairwise(nodes)]
    changes = [
        {"at": f"{draw.uniform(0.2, 1.9):.3f} s", "link": made["name"], "rate": rate}
        for made in links
        for rate in draw.sample(["100 kbit/s", "1 Mbit/s", "50 Mbit/s"], draw.choice([0, 0, 2]))
    ]
    for made in links:
        # The last state may be "down".
        times = sorted(draw.uniform(0.1, 1.9) for _ in range(draw.choice([0, 0, 1, 2, 4])))
        direction = draw.choice(["", ".forward", ".backward"])
        changes += [
            {"at": f"{at:.3f} s", "link": made["name"] + direction, "state": state}
            for at, state in zip(times, itertools.cycle(["down", "up"]))
        ]
    watched = [made["name"] + ".*" for made in links if draw.random() < 0.5]
    scenario: Table = {
        "name": "drawn",
        "seed": seed,
        "duration": draw.choice(["2 s", "5 s"]),
        "links": links,
        "changes": changes,
        "measure": {"from": "1 s"},
        "dns": [resolvers(draw, f"dns{number}") for number in range(draw.randrange(1, 3))],
        "traffic": [traffic(draw, f"traffic{number}") for number in range(draw.randrange(4))],
    }
    if watched:
        sampled = {"links": watched, "rate": 97.3}
        scenario["monitor"] = {"queues": sampled, "links": sampled}
    return scenario


def tables(
    plan: Table, *, collapse: bool = True, scheduled: bool = False
) -> dict[str, dict[str, Any]]:
    simulation = _core.Simulation(json.dumps(plan), collapse=collapse, scheduled=scheduled)
    while not simulation.advance(100_000):
        pass
    assert simulation.stopped != "event-limit"
    return simulation.tables()


def difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The first column in which the tables of two runs differ, or nothing."""
    assert one.keys() == other.keys()
    for name, columns in one.items():
        for column, values in columns.items():
            left, right = np.asarray(values), np.asarray(other[name][column])
            if left.dtype != right.dtype or left.tobytes() != right.tobytes():
                return f"{name}.{column}"
    return ""


@pytest.mark.parametrize("seed", SEEDS)
def test_all_modes_give_the_same_tables(seed: int) -> None:
    plan = Scenario.from_dict(drawn(seed)).plan()
    expected = tables(plan)
    for scheduled, collapse in [(False, False), (True, True), (True, False)]:
        found = tables(plan, collapse=collapse, scheduled=scheduled)
        assert not difference(expected, found), f"scheduled {scheduled}, collapse {collapse}"


def test_a_packet_that_waits_at_the_end_is_neither_lost_nor_delivered() -> None:
    """300 kbit/s of packets into 64 kbit/s: most wait. A fifth of those that left are lost."""
    source = {"kind": "udp", "name": "u", "sender": "a", "receiver": "b", "packet": "1000 B"}
    fast = {"name": "fast", "between": ["a", "r"], "rate": "500 kbit/s"}
    slow = {"name": "slow", "between": ["r", "b"], "rate": "64 kbit/s", "loss": 0.2}
    scenario = Scenario.from_dict(
        {
            "name": "loss",
            "duration": "10 s",
            "links": [fast, slow],
            "traffic": [{**source, "rate": "300 kbit/s"}],
            "monitor": {"links": {"links": ["slow.forward"], "rate": 1}},
        }
    )
    for scheduled in (False, True):
        found = tables(scenario.plan(), scheduled=scheduled)
        lost = int(found["streams"]["lost_packets"].sum())
        received = int(found["streams"]["received_packets"].sum())
        # 1000 bytes take 125 ms, from 16 ms on: 79 packets leave. The last sample is at the end.
        assert lost + received == 79 == found["links"]["packets"][-1]
        assert lost == found["links"]["lost"][-1]
        # Four standard deviations of a binomial distribution.
        assert abs(lost - 79 * 0.2) < 4 * (79 * 0.2 * 0.8) ** 0.5
