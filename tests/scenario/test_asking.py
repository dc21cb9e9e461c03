"""Incast and web pages: what they lower to, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows import Scenario, ScenarioError, _core, run

from .test_bad_input import GOOD, with_change

S = 10**12

INCAST: dict[str, Any] = {
    "kind": "incast",
    "name": "storage",
    "client": "b",
    "servers": ["a"],
    "block": "30 kB",
}
PAGE: dict[str, Any] = {
    "kind": "page",
    "name": "web",
    "client": "b",
    "server": "a",
    "objects": [
        {"name": "html", "size": "10 kB"},
        {"name": "style", "size": "5 kB", "number": 2, "after": ["html"], "wait": "5 ms"},
        {"name": "image", "size": ["1 kB", "2 kB"], "after": ["html", "style"]},
    ],
}


def group(table: dict[str, Any]) -> Scenario:
    return Scenario.from_dict(with_change("traffic/0", table))


def applications(table: dict[str, Any]) -> list[dict[str, Any]]:
    """What a group lowers to; the simulator takes it."""
    scenario = group(table)
    assert Scenario.from_dict(json.loads(json.dumps(scenario.resolved()))) == scenario
    plan = scenario.plan()
    _core.Simulation(json.dumps(plan))
    return [application["kind"] for application in plan["applications"][:2]]


def test_incast_asks_each_server_on_each_connection() -> None:
    client, responder = applications({**INCAST, "connections": 3, "service": "2 ms"})
    assert client["incast"]["servers"] == [{"there": 0, "back": 1}] * 3
    assert client["incast"]["block"] == {"constant": 30_000}
    assert client["incast"]["reuse"] is True
    assert responder["responder"]["service"] == {"constant": 2 * S // 1000}


def test_whoever_asks_writes_without_nagle_unless_told_otherwise() -> None:
    for given, nagle in ((None, False), (True, True), (False, False)):
        tcp = {} if given is None else {"nagle": given}
        plan = group({**PAGE, "tcp": tcp}).plan()
        client, responder = plan["applications"][:2]
        assert client["kind"]["page"]["tcp"] == responder["kind"]["responder"]["tcp"]
        assert plan["tcp"][client["kind"]["page"]["tcp"]]["nagle"] is nagle


def test_objects_of_a_kind_are_written_out() -> None:
    browsers, _ = applications(PAGE)
    objects = browsers["page"]["objects"]
    assert [entry["name"] for entry in objects] == ["html", "style/0", "style/1", "image"]
    assert [entry["after"] for entry in objects] == [[], [0], [0], [0, 1, 2]]
    assert objects[1]["wait"] == 5 * S // 1000
    assert objects[3]["bytes"] == {"list": [1000, 2000]}


@pytest.mark.parametrize(("protocol", "expected"), [("http/1.1", (6, 1)), ("http/2", (1, 100))])
def test_protocols_are_connections_and_requests_on_each(
    protocol: str, expected: tuple[int, int]
) -> None:
    page = applications({**PAGE, "protocol": protocol})[0]["page"]
    assert (page["connections"], page["streams"]) == expected


OVER_QUIC: dict[str, Any] = {**PAGE, "transport": "quic"}


def test_http_3_has_one_connection_and_both_ends_speak_quic() -> None:
    table = {**OVER_QUIC, "quic": {"congestion": "cubic", "payload": "1452 B"}}
    browsers, servers = applications(table)
    page, responder = browsers["page"], servers["responder"]
    assert (page["connections"], page["streams"]) == (1, 100)
    assert page["secure"]["quic"] == responder["secure"]["quic"]
    assert page["secure"]["quic"]["payload"] == 1452
    assert applications({**table, "protocol": "http/3"}) == [browsers, servers]


@pytest.mark.parametrize(
    ("protocol", "name"), [("http/1.1", "http/1.1"), ("http/2", "h2"), (None, "h3")]
)
def test_the_hello_names_the_protocol(protocol: str | None, name: str) -> None:
    """RFC 7301, 3.1: type, two lengths and the name's length; OpenSSL's own hello has 225 bytes."""
    transport = "tls" if protocol else "quic"
    keys = {"transport": transport} | ({"protocol": protocol} if protocol else {})
    browsers, servers = applications({**PAGE, **keys})
    handshake = browsers["page"]["secure"]["handshake"]
    assert (handshake["alpn"], handshake["hello"]) == (len(name), 225 + 4 + 2 + 1 + len(name))
    assert (servers["responder"]["secure"]["quic"] is None) == (transport == "tls")


def test_keys_of_tls_reach_both_ends() -> None:
    tls = {"resume": True, "early_data": True, "hello": "600 B", "certificates": ["900 B"]}
    browsers, servers = applications({**OVER_QUIC, "tls": {**tls, "key": "rsa-2048", "tickets": 1}})
    client = browsers["page"]["secure"]["handshake"]
    server = servers["responder"]["secure"]["handshake"]
    assert (client["hello"], client["resume"], client["early_data"]) == (600, True, True)
    assert (server["signature"], server["tickets"], server["early_data"]) == (256, 1, True)
    # Header, context, length of the list; length of the certificate and of its extensions.
    assert server["certificate"] == 4 + 1 + 3 + 3 + 900 + 2


@pytest.mark.parametrize(
    ("transport", "round_trips"), [("tcp", (2, 2)), ("tls", (3, 2)), ("quic", (2, 1))]
)
def test_early_data_save_a_round_trip_of_a_pages_second_load(
    transport: str, round_trips: tuple[int, int]
) -> None:
    tls = {} if transport == "tcp" else {"tls": {"resume": True, "early_data": True}}
    objects = [{"name": "html", "size": "1 kB"}]
    values = with_change("links", [{"name": "l", "between": ["a", "b"]}])
    values["links"][0] |= {"rate": "10 Gbit/s", "delay": "50 ms"}
    page = {**PAGE, "objects": objects, "loads": 2, "pause": "1 s", "transport": transport, **tls}
    values = {"name": "w", "duration": "10 s", "links": values["links"], "traffic": [page]}
    pages = run(Scenario.from_dict(values), seed=1).tables["pages"]
    times = pages.get_column("end_s") - pages.get_column("start_s")
    assert times.to_list() == pytest.approx([0.1 * trips for trips in round_trips], abs=1e-3)


def test_the_named_page_has_the_sums_of_its_source() -> None:
    """Web Almanac 2024: KB by type, and requests by type, of the median home page."""
    table = {key: value for key, value in PAGE.items() if key != "objects"}
    objects = applications({**table, "profile": "desktop-2024"})[0]["page"]["objects"]
    sums: dict[str, list[int]] = {}
    for entry in objects:
        sums.setdefault(entry["name"].split("/")[0], []).append(entry["bytes"]["constant"])
    html = sums.pop("document") + sums.pop("frame")
    assert (len(html), round(sum(html) / 1024)) == (2, 18)
    assert {name: (len(sizes), round(sum(sizes) / 1024)) for name, sizes in sums.items()} == {
        "style": (7, 78),
        "script": (23, 613),
        "font": (4, 131),
        "image": (20, 1054),
    }


def changed(table: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {**table, **keys}


HTML = {"name": "html", "size": "1 kB"}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (changed(INCAST, servers=["b"]), "servers[0]: is also the client; hint: name another node"),
        (changed(INCAST, servers=["x"]), 'servers[0]: "x" is not a node'),
        (changed(INCAST, servers=[]), "servers: is empty"),
        (changed(INCAST, block="2 GB"), 'block: is too long for an answer; hint: at most "1 GB"'),
        (changed(INCAST, block=["1 kB", "2 GB"]), "block[1]: is too long for an answer"),
        (
            changed(INCAST, block={"distribution": "exponential", "mean": "2 GB"}),
            "block.mean: is too long for an answer",
        ),
        (changed(INCAST, rounds=0), "rounds: must be at least 1"),
        (
            changed(INCAST, rounds=1_000_000, connections=30),
            "rounds: brings the blocks to 30000000; at most 20000000 can be asked for; hint: lower "
            "it, connections or servers",
        ),
        (
            changed(INCAST, connections=100_000, servers=["a", "r1"]),
            "connections: brings the incast connections to 200000; at most 100000 can be held",
        ),
        (changed(INCAST, request="0 B"), "request: must be above zero"),
        (changed(INCAST, reuse="no"), "reuse: is not true or false"),
        (changed(PAGE, profile="desktop-2024"), "objects: excludes profile"),
        (changed(PAGE, objects=None), "objects: is missing; hint: or profile"),
        (changed(PAGE, server="b"), "server: is also the client"),
        (changed(PAGE, objects=[HTML, HTML]), 'objects[1].name: "html" is already used'),
        (
            changed(PAGE, objects=[{**HTML, "after": ["html"]}]),
            'objects[0].after[0]: "html" is not an object before this one; hint: objects come',
        ),
        (changed(PAGE, objects=[{**HTML, "server": "x"}]), 'objects[0].server: "x" is not a node'),
        (changed(PAGE, objects=[{**HTML, "server": "b"}]), "objects[0].server: is also the client"),
        (changed(PAGE, objects=[{**HTML, "size": "2 GB"}]), "objects[0].size: is too long"),
        (
            changed(
                PAGE, objects=[{**HTML, "number": 9000}, {**HTML, "name": "x", "number": 9000}]
            ),
            "objects: are 18000; a page has at most 10000",
        ),
        (
            changed(
                PAGE,
                objects=[
                    {**HTML, "number": 5000},
                    {"name": "x", "size": "1 B", "number": 5000, "after": ["html"]},
                ],
            ),
            "objects: wait for 25000000 others in all; at most 1000000 can be held",
        ),
        (
            changed(PAGE, loads=1_000_000, browsers=10),
            "loads: brings the page objects to 40000000; at most 10000000 can be recorded",
        ),
        (changed(PAGE, protocol="http/4"), 'protocol: "http/4" is not known here'),
        (
            changed(PAGE, protocol="http/3"),
            'protocol: runs over QUIC; hint: set transport = "quic"',
        ),
        (
            changed(OVER_QUIC, protocol="http/2"),
            'transport: does not carry http/2; hint: leave protocol out, or set "http/3"',
        ),
        (
            changed(OVER_QUIC, tcp={"congestion": "reno"}),
            'tcp: is for TCP, but transport is "quic"',
        ),
        (changed(PAGE, quic={"ecn": True}), "quic: has no effect without QUIC"),
        (
            changed(PAGE, transport="tls", quic={"ecn": True}),
            'quic: has no effect without QUIC; hint: set transport = "quic"',
        ),
        (changed(PAGE, tls={"resume": True}), "tls: has no effect without TLS"),
        (
            changed(OVER_QUIC, tls={"early_data": True}),
            "tls.early_data: needs a session to resume; hint: set resume to true",
        ),
        (changed(OVER_QUIC, tls={"resume": True, "tickets": 0}), "tls.resume: needs tickets"),
        (changed(PAGE, transport="udp"), 'transport: "udp" is not known here'),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as error:
        Scenario.from_dict({**GOOD, "traffic": [{k: v for k, v in table.items() if v is not None}]})
    assert f"traffic[0].{words}" in str(error.value)
    assert "\n" not in str(error.value)


def test_rounds_and_pages_are_rows_with_metrics() -> None:
    values = with_change("traffic/0", {**INCAST, "rounds": 5})
    values["traffic"].append({**PAGE, "loads": 3})
    result = run(Scenario.from_dict(values), seed=1)
    rounds, pages = result.tables["rounds"], result.tables["pages"]
    assert rounds.get_column("bytes").to_list() == [30_000] * 5
    assert pages.get_column("bytes").to_list() == [21_000, 22_000, 21_000]
    assert result.summary["rounds"]["completed"] == 5
    assert result.summary["pages"]["completed"] == 3
    assert result.summary["objects"]["came"] == 12
    mean = (rounds.get_column("end_s") - rounds.get_column("start_s")).mean()
    assert result.summary["rounds"]["round_mean_ms"] == pytest.approx(1e3 * mean)
