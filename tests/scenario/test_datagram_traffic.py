"""Traffic without TCP: what it becomes in the plan, what it records, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows import Scenario, ScenarioError, _core, run

S = 10**12

ENDS = {"name": "t", "sender": "a", "receiver": "b"}
UDP = {"kind": "udp", **ENDS, "rate": "2 Mbit/s", "packet": "1000 B"}
PING = {"kind": "ping", **ENDS, "interval": "10 ms"}
VOIP = {"kind": "voip", **ENDS}
ONE_LINK = {
    "name": "one-link",
    "duration": "20 s",
    "links": [{"name": "l", "between": ["a", "b"], "rate": "10 Mbit/s", "delay": "5 ms"}],
}


def scenario(table: dict[str, Any]) -> Scenario:
    return Scenario.from_dict({**ONE_LINK, "traffic": [table]})


def lowered(table: dict[str, Any]) -> dict[str, Any]:
    plan = scenario(table).plan()
    _core.Simulation(json.dumps(plan))
    (application,) = plan["applications"]
    (settings,) = application["kind"].values()
    return {key: value for key, value in settings.items() if key not in ("streams", "calls")}


def test_a_stream_in_the_plan() -> None:
    mean = {"distribution": "exponential", "mean": "1 s"}
    assert lowered({**UDP, "on": mean, "off": ["1 s", "2 s"], "spacing": "poisson"}) == {
        "packet_bytes": 1000,
        "rate": 2_000_000,
        "spacing": "poisson",
        "on_off": {"on": {"exponential": {"mean": S}}, "off": {"list": [S, 2 * S]}},
        "ecn": "not-ect",
        "packets": None,
        "period": S,
    }


def test_calls_in_the_plan() -> None:
    assert lowered(VOIP) == {
        "codec": "g711-plc",
        "packet_time": S // 50,
        "talk": {
            "spurt": {"exponential": {"mean": 1004 * S // 1000}},
            "pause": {"exponential": {"mean": 1587 * S // 1000}},
        },
        "playout": {"fixed": 60 * S // 1000},
    }
    constant = lowered({**VOIP, "talk": "constant", "codec": "g729a"})
    assert (constant["talk"], constant["codec"]) == (None, "g729a")
    assert lowered({**VOIP, "playout": "adaptive"})["playout"] == "adaptive"


def test_pairs_begin_one_after_the_other() -> None:
    table = {**UDP, "pairs": [["a", "b"], ["b", "a"]], "streams": 2, "spread": "4 s"}
    del table["sender"], table["receiver"]
    (application,) = scenario(table).plan()["applications"]
    streams = application["kind"]["udp"]["streams"]
    assert [stream["start"] for stream in streams] == [0, S, 2 * S, 3 * S]
    assert [stream["there"] for stream in streams] == [0, 0, 1, 1]


@pytest.mark.parametrize("table", [UDP, PING, VOIP])
def test_a_resolved_scenario_is_the_same_again(table: dict[str, Any]) -> None:
    parsed = scenario(table)
    assert Scenario.from_dict(json.loads(json.dumps(parsed.resolved()))) == parsed


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ({**UDP, "on": "1 s"}, "traffic[0].off", "is missing"),
        (
            {**UDP, "on": "1 us", "off": "1 s"},
            "traffic[0].on",
            "is below a thousandth of the time between packets",
        ),
        ({**UDP, "packet": "20 B"}, "traffic[0].packet", 'must be at least "28 B"'),
        (
            {**UDP, "period": "1 us"},
            "traffic[0].period",
            "brings the rows of the table streams to 20000001; at most 10000000 can be recorded",
        ),
        (
            {**PING, "interval": "1 us"},
            "traffic[0].interval",
            "brings the probes to 20000001; at most 10000000 can be recorded",
        ),
        (
            {**VOIP, "packet_time": "25 ms"},
            "traffic[0].packet_time",
            "is not a multiple of 10 ms up to 100 ms",
        ),
        (
            {**VOIP, "talk": "constant", "playout": "adaptive"},
            "traffic[0].playout",
            "adapts between talk spurts, but there are none",
        ),
        (
            {**VOIP, "talk": "constant", "pause": "1 s"},
            "traffic[0].pause",
            'is only for talk = "spurts"',
        ),
        ({**VOIP, "receiver": "a"}, "traffic[0].receiver", "joins a node with itself"),
    ],
)
def test_impossible_traffic_is_refused_by_name(table: dict[str, Any], key: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(table)
    assert (caught.value.key, caught.value.message) == (key, said)


def test_the_tables_and_summaries_of_a_run() -> None:
    tables = {"traffic": [UDP | {"name": "u"}, PING | {"name": "p"}, VOIP | {"name": "v"}]}
    result = run(Scenario.from_dict({**ONE_LINK, **tables}))
    streams, pings, calls = (result.summary[name] for name in ("streams", "pings", "voip"))
    # 250 packets a second of 1000 bytes, which take 0.8 ms and 5 ms where nothing else is sent.
    assert (streams["sent_packets"], streams["lost_percent"]) == (5000 + 1, 0)
    assert streams["sent_mbps"] == pytest.approx(2.0, rel=1e-3)
    assert streams["delay_mean_ms"] == pytest.approx(5.8, abs=0.1)
    assert pings["probes"] == 2001
    assert pings["rtt_min_ms"] == pytest.approx(10 + 2 * 84 * 8e-4, abs=1e-6)
    # G.107's rating without loss, minus 2.3 for a delay of some 90 ms.
    assert calls["r_mean"] == pytest.approx(93.2 - 2.3, abs=0.5)
    assert result.table("voip").get_column("direction").to_list() == ["there", "back"]
