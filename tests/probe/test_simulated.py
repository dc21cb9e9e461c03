"""Simulated servers get the same verdicts from a run as real ones get from a probe."""

from __future__ import annotations

from typing import Any

import pytest

from narrows import Run, Scenario, run
from narrows.probe import measurement_of
from narrows.probe.verdict import VERDICTS
from narrows.ratio import analyse

RTT_MS = 40.0

SCENARIO = """
name = "pairs"
seed = 3
duration = "200 s"
end = "dns"
[[links]]
name = "wan"
between = ["client", "server"]
rate = "1 Gbit/s"
delay = "19.99 ms"
[[links]]
name = "near"
between = ["crowd", "server"]
rate = "1 Gbit/s"
delay = "1 ms"
[[dns]]
name = "over-tcp"
client = "client"
server = "server"
queries = 20
transport = { kind = "tcp", answer_timeout = "5 s", connect_timeout = "5 s" }
think_mean = "700 ms"
messages = [{ query = "17 B", reply = "745 B" }]
[[dns]]
name = "over-udp"
client = "client"
server = "server"
shares_server = "over-tcp"
queries = 20
think_mean = "700 ms"
messages = [{ query = "17 B", reply = "745 B" }]
"""

CROWD = """
[[dns]]
name = "crowd"
client = "crowd"
server = "server"
shares_server = "over-tcp"
workers = 80
queries = 400
transport = { kind = "tcp", reuse = true, idle_timeout = "300 ms" }
think_mean = "300 ms"
"""


KEPT = {"transport.reuse": True, "transport.idle_timeout": '"60 s"'}


def toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def ran(crowd: bool = False, **set: Any) -> Run:
    text = SCENARIO + (CROWD if crowd else "")
    return run(Scenario.parse(text, set={f"dns.over-tcp.{k}": toml(v) for k, v in set.items()}))


def verdict(found: Run) -> dict[str, Any]:
    return next(
        part for part in measurement_of(found).findings["verdicts"] if part["vantage"] == "client"
    )


@pytest.mark.parametrize(
    ("name", "ratio", "set"),
    [
        ("one-write", 2.0, {}),
        ("two-writes", 3.0, {"answers.writes": "apart", "answers.nagle": True}),
        # Without Nagle's algorithm, nothing waits; only packets distinguish this from one write.
        ("one-write", 2.0, {"answers.writes": "apart", "answers.nagle": False}),
        ("fixed-delay", 2.5, {"answers.tcp_service": "20 ms"}),
        ("slow-server", 2.0, {"service": "25 ms"}),
        ("refuses", None, {"answers.tcp": False}),
        # BIND and Knot answer so: three segments, and nothing waits.
        ("one-write", 2.0, {"messages": '[{ query = "17 B", reply = "3000 B" }]'}),
        # A client that never acknowledges at once: 3 + 40 ms / 40 ms.
        (
            "delayed-acknowledgement",
            4.0,
            {
                "answers.writes": "apart",
                "answers.nagle": True,
                "transport.tcp.acks": '{ delayed = "40 ms" }',
            },
        ),
        # On a connection that stays open: no handshake.
        ("one-write", 1.0, KEPT),
        ("two-writes", 2.0, {"answers.writes": "apart", "answers.nagle": True, **KEPT}),
    ],
)
def test_a_simulated_server_gets_the_verdict_of_a_real_one(
    name: str, ratio: float | None, set: dict[str, Any]
) -> None:
    found = verdict(ran(**set))
    assert name in VERDICTS and found["name"] == name
    if ratio is not None:
        # Real servers had 2.00, 3.01 and 2.5 at 40 ms; a slow server is as slow over UDP.
        expected = (2.0 * RTT_MS + 25.0) / (RTT_MS + 25.0) if name == "slow-server" else ratio
        assert found["metrics"]["ratio"] == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(("filter_action", "name"), [("drop", "silent"), ("reject", "refuses")])
def test_a_filter_before_the_server(filter_action: str, name: str) -> None:
    text = SCENARIO.replace(
        'name = "wan"\n', f'name = "wan"\nmiddlebox = {{ block_tcp_53 = "{filter_action}" }}\n'
    )
    assert verdict(run(Scenario.parse(text)))["name"] == name


def test_full_servers() -> None:
    slots = ran(True, **{"answers.connections": 20, "answers.backlog": 256})
    assert verdict(slots)["name"] == "slots-full"
    backlog = ran(True, **{"answers.connections": 4, "answers.backlog": 1})
    assert verdict(backlog)["name"] == "backlog-full"
    rejects = ran(True, **{"answers.connections": 20, "answers.when_full": '"reject"'})
    assert verdict(rejects)["name"] == "closes"


def test_a_run_is_analysed_like_a_measurement() -> None:
    measurement = measurement_of(ran(**{"answers.writes": "apart", "answers.nagle": True}))
    analysis = analyse([measurement])
    assert analysis.table.height == 20
    assert analysis.whole.peaks.quantiles[0.5] == pytest.approx(3.0, abs=0.03)
    assert analysis.verdicts[0].startswith("server from client over TCP: 3.0: the length comes")
    exchanges = measurement.exchanges.filter(transport="tcp")
    gap = (exchanges["query_ms"] - exchanges["first_byte_ms"]).median()
    assert gap == pytest.approx(RTT_MS, abs=0.2)
    assert exchanges["connect_ms"].median() == pytest.approx(RTT_MS, abs=0.2)


def test_servers_at_one_node_that_differ_are_two_targets() -> None:
    text = SCENARIO.replace('shares_server = "over-tcp"\n', "")
    alike = measurement_of(run(Scenario.parse(text)))
    assert set(alike.exchanges["target"]) == {"server"}
    differing = Scenario.parse(text, set={"dns.over-tcp.answers.tcp_service": "1 ms"})
    targets = set(measurement_of(run(differing)).exchanges["target"])
    assert targets == {"server (over-tcp)", "server (over-udp)"}
