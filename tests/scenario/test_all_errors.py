"""All errors of a scenario are reported at once, and none that only follows from another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario, ScenarioError
from tests.scenario.test_bad_input import CASES, ON_OFF, with_change
from tests.scenario.test_copies import FAN

LAN = {"name": "lan", "between": ["c", "r1"], "rate": "1 Mbit/s"}
UDP = {"kind": "udp", "name": "u", "sender": "a", "receiver": "b", "rate": "1 Mbit/s"}
PAGE = {"kind": "page", "name": "p", "client": "a", "server": "b"}
ZONE = {"kind": "transfer", "name": "z", "server": "a", "secondaries": ["b"], "zone": "1 MB"}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The good scenario of test_bad_input with some keys changed."""
    values = with_change("description", "changed")
    for path, value in changes:
        *parents, last = (int(part) if part.isdigit() else part for part in path.split("/"))
        node: Any = values
        for part in parents:
            node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
        if value is ...:
            del node[last]
        elif isinstance(node, list) and last == len(node):
            node.append(value)
        else:
            node[last] = value
    return values


def lines(values: dict[str, Any]) -> list[str]:
    """The errors of a scenario, without their hints."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(values, file="f")
    errors = (caught.value, *caught.value.others)
    assert all("\n" not in str(error) for error in errors)
    return [f"{error.key}: {error.message}" for error in errors]


def test_four_kinds_of_mistakes_give_four_lines() -> None:
    values = changed(
        ("links/1/delya", "5 ms"),  # an unknown key
        ("traffic/0/stop", "20"),  # a wrong value
        ("links/0/queue/min", "300 kB"),  # keys of a table that contradict each other
        ("dns/0/client", "bb"),  # tables that do not fit each other
    )
    assert sorted(lines(values)) == [
        'dns[0].client: "bb" is not a node',
        "links[0].queue.min: \"300 kB\" is not below max (\"262374 B\")",
        "links[1].delya: is not a known key",
        'traffic[0].stop: "20" has no unit; use one of ps, ns, us, ms, s, min, h',
    ]  # fmt: skip


def test_each_rule_of_a_table_gives_its_line() -> None:
    values = changed(
        ("traffic/0/sender", "b"),
        ("traffic/0/ramp", "rising"),
        ("traffic/0/ecn_share", 0.5),
        ("traffic/0/tcp", {"ecn": True, "recovery": "tahoe", "min_rto": "130 s"}),
    )
    # A wrong table within a table says nothing about what is beside it.
    assert {line.partition(":")[0] for line in lines(values)} == {
        "traffic[0].receiver",
        "traffic[0].ramp",
        "traffic[0].tcp.recovery",
        "traffic[0].tcp.min_rto",
    }


def test_each_table_gives_its_line() -> None:
    values = changed(
        ("links/1/name", "bottleneck"),
        ("traffic/0/sender", "aa"),
        ("dns/0/server", "aa"),
        ("traffic/0/start", "11 s"),
        ("monitor/queues/links", ["bottlneck", "lft", "right"]),
        ("monitor/capture", ["nothing*"]),
        ("changes", [{"at": "12 s", "link": "wan", "rate": "1 Mbit/s"}]),
        ("end", "dns"),
        ("dns/0/queries", ...),
    )
    assert {line.partition(":")[0] for line in lines(values)} == {
        "links[1].name",
        "traffic[0].sender",
        "dns[0].server",
        "traffic[0].start",
        "monitor.queues.links[0]",
        "monitor.queues.links[1]",
        "monitor.capture[0]",
        "changes[0].at",
        "changes[0].link",
        "end",
    }


def test_rules_of_a_table_hold_beside_its_wrong_values() -> None:
    values = changed(
        ("links/0/delay", "5O ms"),
        ("links/0/between", ["r1", "r1"]),
        ("links/0/jitter", {"deviation": "1 ms"}),
        ("traffic/0", {**UDP, "on": "1 s", "packet": "2 B"}),
        ("monitor/links", {"links": ["no"], "rate": 0}),
    )
    assert sorted(lines(values)) == [
        "links[0].between: joins a node with itself",
        'links[0].delay: "5O ms" has the unknown unit "O ms"; use one of ps, ns, us, ms, s, min, h',
        'monitor.links.links[0]: "no" is not a link',
        "monitor.links.rate: must be at least 1e-06",
        "traffic[0].off: is missing",
        'traffic[0].packet: must be at least "28 B"',
    ]


FOLLOW = [
    # A link without its name: monitors and changes may mean it.
    ([("links/0/name", "a b"), ("monitor/capture", ["wan"])], ["links[0].name"]),
    # A link without its ends: nodes may be there, and paths.
    ([("links/1/between", ["a b", "r1"])], ["links[1].between[0]"]),
    ([("links/1", 3)], ["links[1]"]),
    ([("links", 3)], ["links"]),
    # Without the duration, nobody knows what is too late.
    ([("duration", 3), ("traffic/0/start", "11 s")], ["duration"]),
    # Without a delay, nobody knows whether the jitter is above it.
    ([("links/0/delay", 5), ("links/0/jitter", {"deviation": "1 ms"})], ["links[0].delay"]),
    # A mistyped key is also a missing one, and an unknown word may stand for any.
    ([("links/1/rate", ...), ("links/1/rat", "1 Mbit/s")], ["links[1].rat"]),
    ([("links/1/rate", ...), ("links/1/speed", "1 Mbit/s")], ["links[1].speed"]),
    ([("traffic", ...), ("trafic", [])], ["trafic"]),
    # A group whose ends are wrong has no paths.
    ([("traffic/0/receiver", "a b")], ["traffic[0].receiver"]),
    ([("traffic/0/receiver", "a")], ["traffic[0].receiver"]),
    ([("dns/0/server", ...)], ["dns[0].server"]),
    # A group of another kind would have other keys.
    ([("traffic/0/kind", "bluk"), ("traffic/0/sender", "x")], ["traffic[0].kind"]),
    ([("traffic/0/sender", ...), ("traffic/0/ramp", [["0 s", 3]])], ["traffic[0]"]),
    # Values without which a number cannot be computed.
    ([("traffic/0", {**ZONE, "record": "60 kB"})], ["traffic[0].record"]),
    ([("traffic/0", PAGE)], ["traffic[0].objects"]),
    ([("traffic/0", {**PAGE, "objects": [], "profile": "desktop-2024"})], ["traffic[0].objects"]),
    # Lengths that are too short for a message, and so for a capture of it.
    (
        [("dns/0/messages", {"query": "5 B", "reply": "90 B"}), ("monitor/capture", ["left"])],
        ["dns[0].messages.query"],
    ),
    # A trace that cannot be read has no rate, and its link changes in some way.
    (
        [
            ("links/1/rate", ...),
            ("links/1/rate_trace", "none"),
            ("changes", [{"at": "1 s", "link": "left", "rate": "1 Mbit/s"}]),
        ],
        ["links[1].rate_trace"],
    ),
    # A real server gives the profile.
    ([("dns/0/answers", {"software": "nsd", "udp_size": 3})], ["dns[0].answers.udp_size"]),
    # Every group after the one that goes over the bound would go over it, too.
    (
        [
            ("traffic/0/connections", 99_000),
            *((f"traffic/{n}", {**ON_OFF, "idle": "1 s", "name": f"m{n}", "connections": 9000})
              for n in (1, 2, 3)),
        ],
        ["traffic[1].connections"],
    ),
    # Two groups that need the same missing link.
    ([("links/2/between", ["c", "b"])], ["traffic[0].receiver"]),
    # An empty list of queries.
    ([("dns/0/queries", -1)], ["dns[0].queries"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "keys"), FOLLOW)
def test_no_error_is_only_a_consequence(changes: list[tuple[str, Any]], keys: list[str]) -> None:
    assert [line.partition(":")[0] for line in lines(changed(*changes))] == keys


@pytest.mark.parametrize(("path", "value", "expected"), CASES)
def test_one_mistake_gives_one_line(path: str, value: Any, expected: str | None) -> None:
    if expected is None:
        return
    found = lines(with_change(path, value))
    # A list of nodes that lacks most of them lacks each of them.
    missing = [line for line in found if "is not among nodes.hosts" in line]
    assert len(found) == 1 or len(missing) >= len(found) - 1


def test_a_wrong_count_hides_no_other_error() -> None:
    values = changed(
        ("links/1/count", "three"),
        ("links/1/name", "left{i}"),
        ("links/1/between", ["a{i}", "r1"]),
        ("links/1/rate", "1 Mbps"),
        ("traffic/0/connections", 0),
    )
    assert [line.partition(":")[0] for line in lines(values)] == [
        "links[1].count",
        "links[1].rate",
        "traffic[0].connections",
    ]


def test_errors_of_copies_name_the_place_in_the_file() -> None:
    values = changed(
        ("links/0", {**LAN, "name": "lan{i}", "between": ["c{i}", "r1"], "count": 50, "loss": 2}),
        ("links/1/raet", "1 Mbit/s"),
        ("links/2/name", "left"),
        ("traffic/0", {"kind": "bulk", "name": "t", "pairs": [["r1", "a"], ["q{i}", "a"]],
                       "count": 50}),
        ("monitor", ...),
        ("dns", ...),
    )  # fmt: skip
    assert sorted(lines(values)) == [
        "links[0].loss: must be at most 1.0",
        "links[1].raet: is not a known key",
        'links[2].name: "left" is taken by links[1]',
        'traffic[0].pairs[1][0]: "q0" is not a node',
    ]


def test_a_file_with_a_million_errors_is_refused_soon() -> None:
    link = {**LAN, "name": "lan{i}", "between": ["c{i}", "r1"], "count": 30_000, "loss": 2}
    wrong = {f"key{number}": 1 for number in range(40)}
    assert len(lines(changed(("links/0", {**link, **wrong})))) == 20


WAN = 'between = ["R1", "sink"]\nrate = "1 Mbit/s"\n'
TEXT = FAN.replace(WAN, f'{WAN}queue = {{ kind = "pfifo", limit = 100 }}\n')


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("queue.limt", "1", 'queue.limt: is not a known key; hint: did you mean "limit"?'),
        ("queue.limit", "0", "queue.limit: must be at least 1"),
        ("links.wan.rate", "1", "links.wan.rate: is a number without a unit"),
        ("links.wan.queue", '{ kind = "pfifo", limt = 1 }', "links.wan.queue.limt: is not a known"),
        (
            "links.wan.forwrd.delay",
            "1 ms",
            "links.wan.forwrd: is not a known key; hint: did you mean",
        ),
        ("links[0].rate", "1", "links[0].rate: is a number without a unit"),
        ("links[0].cuont", "1", 'links[0].cuont: is not a known key; hint: did you mean "count"?'),
        ("links[0].count", "0", "links[0].count: must be at least 1"),
        ("traffic.count", "0", "traffic.count: must be at least 1"),
        (
            "traffic.data.conections",
            "1",
            "traffic.data.conections: is not a known key; hint: did you",
        ),
        ("traffic.data.pairs", '[["src{i}", "sinc"]]', 'traffic.data.pairs[0][1]: "sinc" is no'),
        (
            "traffic.tcp.initial",
            "1",
            "traffic.tcp.initial: is not a known key; "
            'hint: did you mean "initial_rto" or "initial_window" or "initial_ssthresh"?',
        ),
    ],
)
def test_keys_that_were_set_are_named_as_they_were_written(
    key: str, value: str, expected: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(TEXT, set={key: value}, file="f")
    assert str(caught.value).startswith(f"f: {expected}")
    assert not caught.value.others


def test_keys_that_lead_nowhere_are_named_together() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(TEXT, set={"links.9.rate": "1", "seed": "2", "traffic.x[0].y": "1"})
    assert [error.key for error in (caught.value, *caught.value.others)] == [
        "links.9.rate",
        "traffic.x[0].y",
    ]


def test_a_list_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("1\nx\n")
    file = tmp_path / "s.toml"
    file.write_text(TEXT.replace('rate = "1 Mbit/s"\nqueue', 'rate_trace = "list"\nqueue'))
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(file, set={"links.wan.ring": "{ packets = 2 }"})
    errors = [error.key for error in (caught.value, *caught.value.others)]
    assert errors == ["links[1].rate_trace", "links.wan.ring"]
