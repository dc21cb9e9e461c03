"""Any file gives a Scenario or a ScenarioError of one line, in bounded time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from narrows import Scenario, ScenarioError, _core
from narrows.scenario.amounts import DataRate, DataSize, Duration

from ..plans import connections
from .test_bad_input import GOOD
from .test_lowering import TEXT

pytestmark = pytest.mark.slow

# Seconds of processor time, because the machine may have other work.
LONGEST_S = 10.0

RICH: dict[str, Any] = {
    **GOOD,
    "links": [
        {
            **GOOD["links"][0],
            "queue": {
                "kind": "prio",
                "bands": [
                    {"name": "dns", "match": [{"protocol": "udp", "port": 53}]},
                    {"name": "rest", "queue": {"kind": "tdrr", "sample": "50 ms"}},
                ],
            },
        },
        {
            **GOOD["links"][1],
            "queue": {
                "kind": "classes",
                "classes": [
                    {
                        "name": "all",
                        "rate": "1 Mbit/s",
                        "burst": "9 kB",
                        "queue": {"kind": "blue", "unit": "bytes", "limit": "9 kB"},
                    }
                ],
            },
        },
        {**GOOD["links"][2], "queue": {"kind": "fq-codel", "flows": 16}},
    ],
    "changes": [{"at": "3 s", "link": "bottleneck", "rate": "1 Mbit/s", "delay": "9 ms"}],
    "traffic": [
        {
            "kind": "ftp",
            "name": "ftp",
            "servers": ["a"],
            "clients": ["b"],
            "connections": 3,
            "file": {"distribution": "pareto", "mean": "9 kB", "shape": 1.5},
            "pause": ["1 s", "2 s"],
            "ramp": [["0 s", 1], ["2 s", 3]],
            "stop": "5 s",
            "route": ["a", "r1"],
        }
    ],
}
KEYS = sorted(
    {
        *GOOD,
        *("nodes", "hosts", "routers", "end", "seed", "event_limit", "description", "capture"),
        *(key for link in GOOD["links"] for key in link),
        *(
            "queue",
            "kind",
            "limit",
            "min",
            "max",
            "forward",
            "backward",
            "ring",
            "packets",
            "jitter",
            "count",
        ),
        *("deviation", "framing", "loss", "pairs", "connections", "ecn_share", "tcp", "acks"),
        *(
            "stop",
            "ramp",
            "stagger",
            "burst",
            "bursts",
            "idle",
            "idle_mean",
            "distribution",
            "mean",
        ),
        *("shape", "servers", "clients", "file", "files", "pause", "route", "route_back"),
        *("changes", "at", "link", "delay", "bands", "classes", "match", "queue", "flows"),
        *("protocol", "port", "min_bytes", "max_bytes", "burst", "sample", "threshold", "quantum"),
        *("profile", "start", "spread", "workers", "queries", "retry", "links", "rate", "unit"),
    }
)
WORDS = ["on-off", "ftp", "pareto", "rising", "random", "tahoe", "prio", "packet"]
SCALARS = st.one_of(
    st.none().map(lambda _: ""),
    st.booleans(),
    st.integers(),
    st.integers(10**17, 10**25),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["a", "b", "r1", "r2", "bottleneck", "*", "0", "red", "bulk", "dns", "bytes", *WORDS]
    ),
    st.builds(
        "{} {}".format,
        st.integers(0, 10**30) | st.floats(),
        st.sampled_from(["ms", "s", "B", "kB", "Mbit/s", "bit/s", "parsecs"]),
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=20,
)


def outcome(text: str | bytes | dict[str, Any], tmp_path: Path | None = None) -> None:
    started = time.process_time()
    try:
        if isinstance(text, dict):
            scenario = Scenario.from_dict(text)
        elif isinstance(text, bytes):
            assert tmp_path is not None
            (tmp_path / "any.toml").write_bytes(text)
            scenario = Scenario.load(tmp_path / "any.toml")
        else:
            scenario = Scenario.parse(text)
    except ScenarioError as error:
        shown = str(error)
        assert shown.isprintable()
        assert len(shown) < 2000
    else:
        assert Scenario.from_dict(scenario.resolved()) == scenario
    assert time.process_time() - started < LONGEST_S


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    outcome(content, tmp_path)


@given(st.text(max_size=400))
@example("\ufeff")
@example("a=1979-05-27T07:32:00Z")
@example("duration=1979-05-27")
@example("links=[{between=[1,2]}]")
@example('name="\\ud800"')
def test_any_text(text: str) -> None:
    outcome(text)


@given(st.data())
def test_a_scenario_with_pieces_cut_out_and_put_in(data: st.DataObject) -> None:
    text = TEXT
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        piece = data.draw(st.sampled_from(TEXT.split()) | st.text(max_size=10))
        text = text[:start] + piece + text[end:]
    outcome(text)


@given(st.data())
def test_a_scenario_with_a_value_replaced(data: st.DataObject) -> None:
    def replaced(node: Any) -> Any:
        if isinstance(node, dict) and node and data.draw(st.integers(0, 3)):
            key = data.draw(st.sampled_from(sorted(node)))
            return {**node, key: replaced(node[key])}
        if isinstance(node, list) and node and data.draw(st.integers(0, 3)):
            index = data.draw(st.integers(0, len(node) - 1))
            return [*node[:index], replaced(node[index]), *node[index + 1 :]]
        return data.draw(VALUES)

    values = replaced(data.draw(st.sampled_from([GOOD, RICH])))
    outcome(values if isinstance(values, dict) else {"name": values})


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_any_tables(values: dict[str, Any]) -> None:
    outcome(values)


@given(
    st.text(max_size=40) | st.sampled_from(["queue.limit", "links.wan.rate"]), st.text(max_size=40)
)
def test_any_override(key: str, value: str) -> None:
    try:
        Scenario.parse(TEXT, set={key: value})
    except ScenarioError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "a" * 2**20,
        "[" * 2**20,
        "a." * 2**19,
        '"a".' * 2**18,
        "x = '" + "a." * 2**19 + "'",
        "x = [" + "[" * 90 + "]" * 90 + "]",
        "[[links]]\n" * (2**20 // 10),
        "".join(f"[a{n}]\n" for n in range(120_000)),
        "[a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p]\n" * 30_000,
        "links = [" + "{}," * (2**20 // 4) + "]",
        "links = [" + '{name="x"},' * 90_000 + "]",
        '[[links]]\ncount=10000\nbetween=["a","b"]\nname="{i}' + "x" * 2**19 + '"',
        '[[links]]\ncount=10000\nname="{i}"\nbetween=[' + '"{i}",' * 2**17 + "]",
        '[[traffic]]\ncount=100000\npairs=[["a","b"]]\n' * 20_000,
        "[[traffic]]\ncount=0x" + "f" * 2**19 + "\npairs=[]",
        "x = {" + "a={" * 300 + "}" * 300 + "}",
        "name = '" + "x" * 2**19 + "'",
        "seed = 0x" + "f" * 2**19,
        "x = " + "1_" * 2**19 + "1",
        "x = 1e" + "9" * 2**18,
        'x = "' + "\\n" * 2**19,
        'duration = "' + "9" * 2**19 + ' s"',
        'duration = "0.' + "0" * 2**19 + '1 s"',
    ],
    ids=lambda text: text[:30],
)
def test_a_megabyte_of_one_thing(text: str) -> None:
    outcome(text[: 2**20])


def big(links: int, pairs: int) -> str:
    text = 'name = "big"\nduration = "1 s"\n'
    text += "".join(
        f'[[links]]\nname="{n}"\nbetween=["{n}","{n + 1}"]\nrate="1bit"\n' for n in range(links)
    )
    ends = ",".join(f'["{n * 7 % links}","{n * 7 % links + 60}"]' for n in range(pairs))
    return text + f'[[traffic]]\nkind="bulk"\nname="t"\nconnections=9\npairs=[{ends}]\n'


def test_the_largest_networks_take_bounded_time() -> None:
    text = big(9_000, 9_000)
    assert len(text) < 2**20
    outcome(text)
    patterns = ",".join(['"*0*1*"'] * 9_000)
    outcome(text + f"[monitor]\ncapture=[{patterns}]\n")


def test_twenty_thousand_hosts_around_a_router_take_bounded_time() -> None:
    star = (
        'name="star"\nduration="1 s"\n'
        '[[links]]\nname="l{i}"\nbetween=["h{i}","R"]\nrate="1bit"\ncount=20000\n'
        '[[traffic]]\nkind="bulk"\nname="t"\npairs=[["h{i}","R"]]\ncount=20000\n'
    )
    outcome(star)
    outcome(star + 'route_back=["h0","R"]\n')
    started = time.process_time()
    plan = Scenario.parse(star).plan()
    assert len(connections(plan)) == 20_000
    assert time.process_time() - started < LONGEST_S


@given(st.integers(0, 240 * 3600 * 10**12))
def test_durations_print_exactly(picoseconds: int) -> None:
    assert _core.parse_span(str(Duration(picoseconds))) == picoseconds


@given(st.integers(1, 10**14))
def test_rates_print_exactly(bits_per_second: int) -> None:
    assert _core.parse_rate(str(DataRate(bits_per_second))) == bits_per_second


@given(st.integers(0, 2**32 - 1))
def test_sizes_print_exactly(size: int) -> None:
    assert _core.parse_bytes(str(DataSize(size))) == size
