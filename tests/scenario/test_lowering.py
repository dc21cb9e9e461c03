"""From scenario to plan."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import Scenario
from narrows.scenario import Bulk
from narrows.scenario.lowering import lower

from ..plans import connections, settings

TEXT = """
name = "small"
seed = 7
duration = "20 s"
end = "dns"
event_limit = 1000

[[links]]
name = "wan"
between = ["r", "b"]
rate = "10 Mbit/s"
delay = "100 ms"
jitter = { deviation = "25 ms", correlation = 0.25 }
framing = "ethernet"
ring = { packets = 80 }
dns_exempt = true
[links.forward]
queue = { kind = "red", limit = "400000 B", avpkt = "1000 B", probability = 0.1 }
[links.backward]
rate = "2 Mbit/s"
queue = { kind = "red-1993", unit = "bytes", limit = "90 kB", min = "20 kB", max = "60 kB" }
ring = { bytes = "3 kB" }
loss = 0.5

[[links]]
name = "lan"
between = ["a", "r"]
rate = "100 Mbit/s"

[[traffic]]
kind = "on-off"
name = "web"
sender = "b"
receiver = "a"
connections = 2
burst = "384 kB"
idle_mean = "2 s"
start = "1 s"
spread = "1 s"
ecn_share = 0.5
tcp = { profile = "ns-2", initial_ssthresh = "unbounded", acks = {delayed = "100 ms"}, mss = 1000}

[[dns]]
name = "stubs"
client = "a"
server = "b"
queries = 5
transport = { kind = "udp", retry = "glibc" }

[monitor]
queues = { links = ["wan"], rate = 10 }
links = { links = ["*.forward"], rate = 2.5 }
capture = ["lan.backward"]
"""


def profile(name: str) -> str:
    return json.dumps({"profile was": name, "mss": 1460, "ecn": False, "initial_ssthresh": 3})


# Long: a whole plan.
def test_the_whole_plan() -> None:
    ms, s = 10**9, 10**12
    ethernet = {"overhead": 38, "min": 84, "queue_overhead": 14}
    bare = {"overhead": 0, "min": 0, "queue_overhead": 0}
    jitter = {"deviation": 25 * ms, "correlation": 0.25, "distribution": "uniform", "reorder": True}
    lan = {
        "rate": 100_000_000,
        "opportunities_ms": None,
        "delay": 0,
        "jitter": None,
        "loss": 0.0,
        "dns_exempt": False,
        "framing": bare,
        "queue": {"pfifo": {"limit": 1000}},
        "ring": None,
        "mtu": 1500,
        "middlebox": None,
    }
    config = {"profile was": "ns-2", "mss": 1000, "initial_ssthresh": None}
    config["acks"] = {"delayed": 100 * ms}
    web = {
        "opener": "sender",
        "there": 0,
        "back": 1,
        "stop": None,
    }
    plan = lower(Scenario.parse(TEXT), seed=9, event_limit=5, profile=profile)
    assert json.loads(json.dumps(plan)) == {
        "seed": 9,
        "end": 20 * s,
        "end_when_done": True,
        "event_limit": 5,
        "nodes": ["r", "b", "a"],
        "links": [
            {
                "name": "wan.forward",
                "from": 0,
                "to": 1,
                "rate": 10_000_000,
                "opportunities_ms": None,
                "delay": 100 * ms,
                "jitter": jitter,
                "loss": 0.0,
                "dns_exempt": True,
                "framing": ethernet,
                "queue": {
                    "red": {
                        "limit": 400_000,
                        # tc-red(8): max is limit / 4, min is max / 3, burst is
                        # (2 min + max) / (3 avpkt).
                        "min": 33_333,
                        "max": 100_000,
                        "avpkt": 1000,
                        "burst": 55,
                        "probability": 0.1,
                        "bandwidth": 10_000_000,
                        "ecn": False,
                        "harddrop": False,
                        "nodrop": False,
                        "adaptive": False,
                        "idles": True,
                    }
                },
                "ring": {"packets": 80, "wake": None, "bytes": None},
                "mtu": 1500,
                "middlebox": None,
            },
            {
                "name": "wan.backward",
                "from": 1,
                "to": 0,
                "rate": 2_000_000,
                "opportunities_ms": None,
                "delay": 100 * ms,
                "jitter": jitter,
                "loss": 0.5,
                "dns_exempt": True,
                "framing": ethernet,
                "queue": {
                    "red-1993": {
                        "unit": "bytes",
                        "mean_packet": 500,
                        "limit": 90_000,
                        "min": 20_000.0,
                        "max": 60_000.0,
                        "weight": 0.002,
                        "max_p": 0.1,
                        "gentle": False,
                        "wait": False,
                        "ecn": False,
                        "mark_above_max": False,
                        "adaptive": None,
                        "bandwidth": 2_000_000,
                    }
                },
                "ring": {"packets": None, "wake": None, "bytes": 3000},
                "mtu": 1500,
                "middlebox": None,
            },
            {"name": "lan.forward", "from": 2, "to": 0, **lan},
            {"name": "lan.backward", "from": 0, "to": 2, **lan},
        ],
        "tcp": [
            {**config, "ecn": False},
            {**config, "ecn": True},
            json.loads(profile("linux-6")),
        ],
        "changes": [],
        "paths": [
            {"from": 1, "to": 2, "links": [1, 3]},
            {"from": 2, "to": 1, "links": [2, 0]},
        ],
        "applications": [
            {
                "name": "web",
                "kind": {
                    "on-off": {
                        "connections": [
                            {"name": "web/0", "tcp": 0, "start": s, **web},
                            {"name": "web/1", "tcp": 1, "start": 1500 * ms, **web},
                        ],
                        "burst": {"constant": 384_000},
                        "idle": {"exponential": {"mean": 2 * s}},
                        "bursts": None,
                    }
                },
            },
            {
                "name": "stubs",
                "kind": {
                    "dns-client": {
                        "server": 2,
                        "there": 1,
                        "back": 0,
                        "workers": 1,
                        "start": 0,
                        "spread": 0,
                        "warm_up": 0,
                        "queries": 5,
                        "arrivals": None,
                        "think_mean": 0,
                        # IP packets of 70 B and 100 B, less 28 B of headers.
                        "sizes": {"drawn": {"query": {"constant": 42}, "reply": {"constant": 72}}},
                        "gives_up": None,
                        "udp": {
                            "timeouts": [5 * s, 5 * s],
                            "payload": 65_507,
                            "tcp_if_truncated": False,
                            "tcp_if_silent": False,
                            "new_port": False,
                        },
                        "tcp": None,
                    }
                },
            },
            {
                "name": "stubs",
                "kind": {
                    "dns-server": {
                        "service": 0,
                        "service_jitter_mean": 0,
                        "udp_payload": 65_507,
                        "tcp": {
                            "tcp": 2,
                            "backlog": 128,
                            "connections": None,
                            "connections_per_client": None,
                            "when_full": "wait",
                            "idle_timeout": 10 * s,
                            "first_query_timeout": 10 * s,
                            "half_query_timeout": None,
                            "on_query": "answer",
                            "busy_levels": [],
                            "busy_counts_new": False,
                            "busy_stays": False,
                            "queries_per_connection": None,
                            "in_order": False,
                            "length_apart": False,
                            "extra_service": 0,
                            "half_open": {
                                "max_syn_backlog": 4096,
                                "synack_retries": 5,
                                "cookies": "when-full",
                                "synack_timers": "exact",
                            },
                            "stateless": False,
                            "tls": None,
                        },
                    }
                },
            },
        ],
        "queue_monitors": [{"link": 0, "interval": 100 * ms}, {"link": 1, "interval": 100 * ms}],
        "link_monitors": [{"link": 0, "interval": 400 * ms}, {"link": 2, "interval": 400 * ms}],
        "flow_samples": [],
        "flow_monitor": None,
        "delay_monitors": [],
        "goodput_interval": 100 * ms,
        "captures": [{"name": "lan.backward", "link": 3, "back": None, "snaplen": None}],
        "neighbours": [],
    }


@pytest.mark.parametrize(
    ("transport", "flows", "groups", "rate"),
    [
        ("udp", '["web"]', ["web"], 10),
        ("udp", '{ groups = ["*"], rate = 4.0 }', ["web"], 4),
        ("tcp", '["stubs", "w*", "stubs"]', ["web", "stubs"], 10),
        ("quic", '["*"]', ["web", "stubs"], 10),
    ],
)
def test_sampled_groups_are_those_with_connections(
    transport: str, flows: str, groups: list[str], rate: int
) -> None:
    """A list stands for a table, and the groups come in the scenario's order."""
    changed = {"dns.stubs.transport": transport, "monitor.flows": flows}
    plan = lower(Scenario.parse(TEXT, set=changed), seed=1, event_limit=1, profile=profile)
    assert plan["flow_monitor"] == {"groups": groups, "interval": 10**12 // rate}


def test_random_starts_come_from_seed_and_name() -> None:
    text = TEXT.replace('spread = "1 s"', 'spread = "1 s"\nstagger = "random"')
    more = text.replace("connections = 2", "connections = 3")

    def starts(text: str, seed: int) -> list[int]:
        plan = lower(Scenario.parse(text), seed=seed, event_limit=1, profile=profile)
        return [connection["start"] for connection in connections(plan)]

    assert starts(text, 1) == starts(text, 1)
    assert starts(text, 1) != starts(text, 2)
    # One more connection does not change the random start of any other.
    assert starts(more, 1)[:2] == starts(text, 1)
    assert all(10**12 <= start < 2 * 10**12 for start in starts(more, 1))


@given(st.integers(1, 500), st.floats(0, 1))
def test_the_ecn_share_is_met_and_spread_evenly(connections: int, share: float) -> None:
    group = Bulk(name="g", sender="a", receiver="b", connections=connections, ecn_share=share)
    wanted = round(share * connections)
    taken = 0
    for index in range(connections):
        taken += bool(group.uses_ecn(index))
        assert abs(taken - wanted * (index + 1) / connections) < 1
    assert taken == wanted


def test_resolved_reads_back_as_the_same_scenario() -> None:
    scenario = Scenario.parse(TEXT)
    resolved = json.loads(json.dumps(scenario.resolved()))
    assert Scenario.from_dict(resolved) == scenario
    assert resolved["links"][0]["backward"]["queue"]["min"] == "20 kB"
    assert resolved["links"][0]["jitter"]["deviation"] == "25 ms"


def test_seed_and_event_limit_are_checked() -> None:
    scenario = Scenario.parse(TEXT)
    for seed, event_limit in ((0, 1), (2**63 - 1, 2**63 - 1)):
        plan = lower(scenario, seed=seed, event_limit=event_limit, profile=profile)
        assert (plan["seed"], plan["event_limit"]) == (seed, event_limit)
    for wrong in (-1, 2**63):
        with pytest.raises(ValueError, match="seed"):
            lower(scenario, seed=wrong, event_limit=1, profile=profile)
    for wrong in (0, 2**63):
        with pytest.raises(ValueError, match="event limit"):
            lower(scenario, seed=1, event_limit=wrong, profile=profile)


def test_changes_are_in_order_and_say_the_rate_from_then_on() -> None:
    text = (
        TEXT
        + """
[[changes]]
at = "9 s"
link = "wan"
delay = "50 ms"
[[changes]]
at = "5 s"
link = "wan.forward"
rate = "1 Mbit/s"
[[changes]]
at = "9 s"
link = "*n.forward"
rate = "3 Mbit/s"
[[changes]]
at = "7 s"
link = "wan.forward"
state = "down"
"""
    )
    s, delay = 10**12, 50 * 10**9
    plan = lower(Scenario.parse(text), seed=9, event_limit=5, profile=profile)
    assert plan["changes"] == [
        {"at": 5 * s, "link": 0, "rate": 1_000_000, "delay": None, "state": None},
        {"at": 7 * s, "link": 0, "rate": 1_000_000, "delay": None, "state": "down"},
        {"at": 9 * s, "link": 0, "rate": 1_000_000, "delay": delay, "state": None},
        {"at": 9 * s, "link": 1, "rate": 2_000_000, "delay": delay, "state": None},
        {"at": 9 * s, "link": 0, "rate": 3_000_000, "delay": None, "state": None},
        {"at": 9 * s, "link": 2, "rate": 3_000_000, "delay": None, "state": None},
    ]


def test_changes_of_queue_loss_and_jitter_are_as_in_links() -> None:
    text = (
        TEXT
        + """
[[changes]]
at = "5 s"
link = "wan.forward"
rate = "1 Mbit/s"
queue = { kind = "red", limit = "60 kB", min = "10 kB", max = "30 kB" }
[[changes]]
at = "6 s"
link = "wan.forward"
loss = { kind = "gilbert-elliott", p = 0.1, r = 0.5 }
jitter = { deviation = "1 ms" }
"""
    )
    plan = lower(Scenario.parse(text), seed=9, event_limit=5, profile=profile)
    first, second = plan["changes"]
    # RED's bandwidth follows from the rate that holds then.
    assert first["queue"]["red"]["bandwidth"] == 1_000_000
    assert first.keys() == {"at", "link", "rate", "delay", "state", "queue"}
    states = {"p": 0.1, "r": 0.5, "loss_bad": 1.0, "loss_good": 0.0}
    assert second["loss"] == {"gilbert-elliott": states}
    assert second["jitter"]["deviation"] == 10**9


def test_code_points_are_those_of_applications_that_have_one() -> None:
    assert "codepoints" not in lower(Scenario.parse(TEXT), seed=1, event_limit=1, profile=profile)
    marks = {"traffic.web.dscp": "AF41", "dns.stubs.answers.dscp": 40}
    scenario = Scenario.parse(TEXT, set=marks)
    plan = lower(scenario, seed=1, event_limit=1, profile=profile)
    names = [application["name"] for application in plan["applications"]]
    assert names == ["web", "stubs", "stubs"]
    assert plan["codepoints"] == [
        {"application": 0, "dscp": 34},
        {"application": 2, "dscp": 40},
    ]
    assert Scenario.from_dict(scenario.resolved()) == scenario


def test_a_ring_that_refills_in_bursts_says_when() -> None:
    text = TEXT.replace("ring = { packets = 80 }", "ring = { packets = 60, wake = 47 }")
    plan = lower(Scenario.parse(text), seed=1, event_limit=1, profile=profile)
    assert plan["links"][0]["ring"] == {"packets": 60, "wake": 47, "bytes": None}


def test_every_group_of_resolvers_has_a_server_of_its_own() -> None:
    more = (
        TEXT + '[[dns]]\nname = "more"\nclient = "r"\nserver = "b"\nqueries = 1\nservice = "3 ms"\n'
    )
    plan = lower(Scenario.parse(more), seed=1, event_limit=1, profile=profile)
    names = [application["name"] for application in plan["applications"]]
    assert names == ["web", "stubs", "stubs", "more", "more"]
    for name, service in (("stubs", 0), ("more", 3 * 10**9)):
        client, _ = settings(plan, name)
        server = plan["applications"][client["server"]]
        assert server["name"] == name
        assert server["kind"]["dns-server"]["service"] == service


def test_a_path_is_held_once_however_it_was_asked_for() -> None:
    dns = '[[dns]]\nname = "more"\nclient = "a"\nserver = "b"\nqueries = 1\nroute = ["r"]\n'
    plan = lower(Scenario.parse(TEXT + dns), seed=1, event_limit=1, profile=profile)
    assert [path["links"] for path in plan["paths"]] == [[1, 3], [2, 0]]
