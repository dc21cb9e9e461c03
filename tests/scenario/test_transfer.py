"""Zone transfers: what they lower to, what is refused, and what a run records about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows import Scenario, ScenarioError, _core, run
from narrows.report.extras import extra_plots
from narrows.scenario.traffic.transfer import RECORDS

from .test_bad_input import GOOD, with_change

S = 10**12

TRANSFER: dict[str, Any] = {
    "kind": "transfer",
    "name": "zone",
    "server": "a",
    "secondaries": ["b", "r1"],
    "zone": "100 kB",
}


def lowered(**keys: Any) -> dict[str, Any]:
    scenario = Scenario.from_dict(with_change("traffic/0", {**TRANSFER, **keys}))
    assert Scenario.from_dict(json.loads(json.dumps(scenario.resolved()))) == scenario
    plan = scenario.plan()
    _core.Simulation(json.dumps(plan))
    transfer = plan["applications"][0]["kind"]["transfer"]
    # The server is the DNS group's, which is lowered later.
    assert "dns-server" in plan["applications"][transfer["server"]]["kind"]
    names = [plan["nodes"][secondary["node"]] for secondary in transfer["secondaries"]]
    assert names == list(keys.get("secondaries", ["b", "r1"]))
    return dict(transfer)


def test_messages_hold_whole_records_beside_the_question() -> None:
    """RFC 5936, 2.2: the SOA record twice; a header (RFC 1035) for each message."""
    # (20480 - 12 - 17) / 100 = 204 records a message; 1000 and the SOA in five of them.
    transfer = lowered()
    assert transfer["message"] == 12 + 204 * 100
    assert transfer["zone"] == 1001 * 100 + 5 * 12
    one_answer = lowered(records_per_message=1, record="50 B")
    assert one_answer["message"] == 62
    assert one_answer["zone"] == 2001 * 62


def test_times_are_after_the_start() -> None:
    transfer = lowered(start="3 s", at=["0 s", "10 s"], spread="2 s")
    assert transfer["at"] == [3 * S, 13 * S]
    assert transfer["spread"] == 2 * S


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"server": "r2"}, 'server: "r2" has no DNS server; hint: add [[dns]] with this server'),
        ({"secondaries": ["a"]}, "secondaries[0]: is also the server; hint: name another node"),
        ({"secondaries": ["x"]}, 'secondaries[0]: "x" is not a node'),
        ({"secondaries": []}, "secondaries: is empty"),
        ({"at": ["2 s", "1 s"]}, "at[1]: comes before the one before; hint: sort them"),
        ({"at": []}, "at: is empty"),
        ({"zone": "501 MB"}, "zone: must be at most"),
        ({"zone": "0 B"}, "zone: must be"),
        ({"message": "511 B"}, "message: must be at least"),
        ({"message": "70 kB"}, "message: must be at most"),
        (
            {"record": "600 B", "message": "600 B"},
            "record: does not fit a message with the question; hint: a longer message",
        ),
        (
            {"zone": "400 MB", "records_per_message": 1},
            "zone: takes 4000001 messages; at most 1000000, with 1 GB in all",
        ),
        ({"records_per_message": 0}, "records_per_message: must be at least 1"),
        ({"format": "many-answers"}, "format: is not a known key"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(keys: dict[str, Any], words: str) -> None:
    values = {**GOOD, "traffic": [{**TRANSFER, **keys}]}
    with pytest.raises(ScenarioError) as error:
        Scenario.from_dict(values)
    assert f"traffic[0].{words}" in str(error.value)
    assert "\n" not in str(error.value)


def values(**answers: Any) -> dict[str, Any]:
    link = {"name": "wan", "between": ["primary", "secondary"], "rate": "8 Mbit/s"}
    transfer = {**TRANSFER, "server": "primary", "secondaries": ["secondary"], "at": ["0 s", "5 s"]}
    return {
        "name": "zone",
        "duration": "20 s",
        "links": [{**link, "delay": "20 ms"}],
        "traffic": [{**transfer, "zone": "1 MB"}],
        "dns": [
            {
                "name": "dns",
                "client": "secondary",
                "server": "primary",
                "queries": 1,
                "transport": "tcp",
                "start": "10 s",
                "answers": answers,
            }
        ],
    }


def test_a_run_says_how_long_transfers_took() -> None:
    result = run(Scenario.from_dict(values()))
    rows = result.table("transfers")
    assert rows.get_column("fate").to_list() == ["whole"] * 2
    assert rows.get_column("start_s").to_list() == [0.0, 5.0]
    # 10001 records of 100 bytes, 204 of them in a message; the question once.
    messages = -(-10_001 // 204)
    assert rows.get_column("messages").to_list() == [messages] * 2
    assert rows.get_column("bytes").to_list() == [1_000_100 + 14 * messages + 17] * 2
    found = result.summary["transfers"]
    assert (found["transfers"], found["completed"], found["failed"]) == (2, 2, 0)
    # At 8 Mbit/s a megabyte takes a second, and headers 4 % more.
    assert 1.05 < found["transfer_mean_s"] < 1.5
    shown = {each.name: each.drawing for each in extra_plots({"a": result})}
    assert len(shown[RECORDS.plots[0].name].curves) == 1


def test_a_server_without_state_leaves_transfers_to_ordinary_tcp() -> None:
    plain = run(Scenario.from_dict(values()))
    stateless = run(Scenario.from_dict(values(stateless=True)))
    for column in ("fate", "messages", "bytes"):
        ours, theirs = (one.table("transfers").get_column(column) for one in (stateless, plain))
        assert ours.to_list() == theirs.to_list()
    # The group's own query is answered without state, and so with fewer packets.
    ours, theirs = (one.attempts.get_column("packets_received")[0] for one in (stateless, plain))
    assert ours < theirs


def test_a_server_without_tcp_refuses_transfers() -> None:
    result = run(Scenario.from_dict(values(tcp=False)))
    assert result.table("transfers").get_column("fate").to_list() == ["refused"] * 2
    assert result.summary["transfers"]["failed"] == 2
