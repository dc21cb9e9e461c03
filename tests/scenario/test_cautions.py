"""What `narrows check` says about groups that begin too late, and about ECN that nothing marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario
from narrows.cli import main
from narrows.scenario.cautions import cautions

PATH = """
name = "path"
duration = "10 s"

[[links]]
name = "up"
between = ["a", "r"]
rate = "100 Mbit/s"

[[links]]
name = "down"
between = ["r", "b"]
rate = "10 Mbit/s"
queue = { kind = "pfifo", limit = 100 }
"""
BULK = """
[[traffic]]
name = "load"
kind = "bulk"
sender = "a"
receiver = "b"
connections = 4
"""
DNS = """
[[dns]]
name = "stubs"
client = "a"
server = "b"
"""
TRANSFER = """
[[traffic]]
name = "zone"
kind = "transfer"
server = "b"
secondaries = ["a"]
zone = "10 kB"
"""
PAGE = """
[[traffic]]
name = "web"
kind = "page"
client = "a"
server = "b"
profile = "desktop-2024"
"""


def said(text: str, changes: Mapping[str, Any] | None = None) -> list[str]:
    return list(cautions(Scenario.parse(text, set=changes)))


def test_a_scenario_in_which_nothing_is_sent_says_so() -> None:
    assert said(PATH) == [
        "no group of traffic or DNS, so nothing is sent; hint: add [[traffic]] or [[dns]]"
    ]
    assert said(PATH + BULK) == []


@pytest.mark.parametrize(
    ("group", "changes", "name", "words"),
    [
        # Four flows evenly over 12 s begin at 0, 3, 6 and 9 s.
        (BULK, {"traffic.load.spread": "12 s"}, "load", ""),
        (BULK, {"traffic.load.spread": "16 s"}, "load", 'as late as "12 s"'),
        (
            BULK,
            {"traffic.load.spread": "12 s", "traffic.load.stagger": "random"},
            "load",
            'as late as "12 s"',
        ),
        (BULK, {"traffic.load.ramp": [["2 s", 0], ["9 s", 4]]}, "load", ""),
        (BULK, {"traffic.load.ramp": [["2 s", 0], ["90 s", 4]]}, "load", 'as late as "68 s"'),
        (DNS, {"dns.stubs.start": "4 s", "dns.stubs.spread": "5 s"}, "stubs", ""),
        (DNS, {"dns.stubs.start": "5 s", "dns.stubs.spread": "5 s"}, "stubs", 'late as "10 s"'),
        (PAGE, {"traffic.web.spread": "30 s"}, "web", 'as late as "30 s"'),
        (DNS + TRANSFER, {"traffic.zone.at": ["0 s", "20 s"]}, "zone", 'as late as "20 s"'),
        (DNS + TRANSFER, {"traffic.zone.at": ["20 s"]}, "zone", 'begins at "20 s"'),
    ],
)
def test_what_begins_after_the_end_is_said(
    group: str, changes: Mapping[str, Any], name: str, words: str
) -> None:
    found = said(PATH + group, changes)
    assert len(found) == bool(words)
    if words:
        assert found[0].startswith(f"{name}: ")
        assert words in found[0]
        assert 'the end of the run ("10 s")' in found[0]


def test_if_no_group_begins_in_time_one_line_says_so() -> None:
    late = {"traffic.load.ramp": [["20 s", 0], ["90 s", 4]]}
    assert said(PATH + BULK, late) == [
        'no group begins before the end of the run ("10 s"), so nothing is sent; '
        "hint: a longer duration"
    ]


MARKING = [
    ('{ kind = "pfifo", limit = 100 }', False),
    ('{ kind = "red", limit = "90 kB" }', False),
    ('{ kind = "red", limit = "90 kB", ecn = true }', True),
    ('{ kind = "fq-codel" }', True),
    ('{ kind = "dualpi2" }', True),
    ('{ kind = "fq" }', False),
    ('{ kind = "fq", ce_threshold = "1 ms" }', True),
    ('{ kind = "fq-codel", ecn = false }', False),
    ('{ kind = "cake" }', True),
    ('{ kind = "codel", ce_threshold = "1 ms" }', True),
    (
        '{ kind = "prio", bands = [{ name = "a", match = [{ protocol = "udp" }], '
        'queue = { kind = "pfifo", limit = 9 } }, { name = "b", queue = { kind = "fq-codel" } }] }',
        True,
    ),
]


@pytest.mark.parametrize(("queue", "marks"), MARKING)
@pytest.mark.parametrize(
    ("group", "changes"),
    [
        (BULK, {"traffic.load.ecn_share": 0.5}),
        (BULK, {"traffic.load.tcp.ecn": True}),
        (PAGE, {"traffic.web.tcp.ecn": True}),
        (PAGE, {"traffic.web.transport": "quic", "traffic.web.quic.ecn": True}),
        (DNS, {"dns.stubs.transport": {"kind": "tcp", "tcp": {"ecn": True}}}),
        (DNS, {"dns.stubs.transport": {"kind": "quic", "quic": {"ecn": True}}}),
    ],
)
def test_ecn_that_no_queue_on_the_path_marks_is_said(
    group: str, changes: Mapping[str, Any], queue: str, marks: bool
) -> None:
    found = said(PATH + group, {"links.down.queue": queue, **changes})
    assert [line for line in found if "no queue on its path marks" in line] == found
    assert len(found) == (not marks)


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        (BULK, {"traffic.load.ecn_share": 0.0}),
        (DNS, {"dns.stubs.transport.tcp.ecn": True}),  # it asks over UDP
    ],
)
def test_who_does_not_use_ecn_is_told_nothing(group: str, changes: Mapping[str, Any]) -> None:
    assert said(PATH + group, changes) == []


def test_a_queue_elsewhere_marks_nothing() -> None:
    aside = '[[links]]\nname = "aside"\nbetween = ["r", "c"]\nrate = "1 Mbit/s"\n'
    changes = {"links.aside.queue": {"kind": "fq-codel"}, "traffic.load.tcp.ecn": True}
    (line,) = said(PATH + aside + BULK, changes)
    assert line.startswith("load: uses ECN")


def test_check_prints_it_and_is_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "path.toml"
    file.write_text(PATH + BULK)
    assert main(["check", str(file), "--set", "traffic.load.tcp.ecn=true"]) == 0
    assert "warning: load: uses ECN, but no queue on its path marks" in capsys.readouterr().out


CHANGES = """
[[changes]]
at = "2 s"
link = "down.forward"
rate = "{low}"

[[changes]]
at = "4 s"
link = "down"
rate = "10 Mbit/s"
"""


@pytest.mark.parametrize(
    ("low", "takes"), [("1 kbit/s", '"12 s"'), ("5.9 kbit/s", '"2.033'), ("6 kbit/s", None)]
)
def test_a_packet_that_outlasts_the_rate_at_which_it_is_sent_is_named(
    low: str, takes: str | None
) -> None:
    """1500 bytes take 2 s at 6 kbit/s, as long as this rate lasts."""
    lines = said(PATH + BULK + CHANGES.format(low=low))
    if takes is None:
        assert lines == []
    else:
        (line,) = lines
        assert line.startswith(f'down.forward: at "{low}", from "2 s" to "4 s", ')
        assert f'"1500 B" takes {takes}' in line


TURN = """
[[changes]]
at = "{at}"
link = "down.forward"
{what}
"""


@pytest.mark.parametrize(
    ("turns", "until"),
    [
        # The packet is cut off, and delays no other.
        ([("3 s", 'state = "down"')], None),
        ([("3 s", 'state = "down"'), ("3.5 s", 'state = "up"')], "4 s"),
        ([("1 s", 'state = "down"')], None),
        ([("1 s", 'state = "down"'), ("2 s", 'state = "up"')], "4 s"),
        # The later entry in the file counts.
        ([("3 s", 'state = "down"'), ("3 s", 'state = "up"')], "4 s"),
        # Neither is another rate.
        ([("3 s", 'delay = "1 ms"'), ("3 s", 'rate = "1 kbit/s"')], "4 s"),
    ],
)
def test_a_link_that_is_down_sends_at_no_rate(
    turns: list[tuple[str, str]], until: str | None
) -> None:
    """At 1 kbit/s from 2 to 4 s, a packet takes 12 s."""
    changes = "".join(TURN.format(at=at, what=what) for at, what in turns)
    lines = said(PATH + BULK + CHANGES.format(low="1 kbit/s") + changes)
    assert [f'to "{until}"' in line for line in lines] == ([] if until is None else [True])
