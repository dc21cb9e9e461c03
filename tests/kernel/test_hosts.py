"""The hosts of applications: addresses that narrows-live uses, and the routes between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from narrows import Scenario, _core
from narrows.backends import BackendError
from narrows.backends.kernel import live
from narrows.backends.kernel.design import Design
from tests.kernel.scenarios import DUMBBELL, dumbbell

SECOND_SERVER = """
[[dns]]
name = "others"
client = "stubs"
server = "resolver"
workers = 1
queries = 1
transport = "tcp"
"""


def hosts_of(scenario: Scenario) -> Design:
    profile = json.loads(_core.tcp_profile("linux-6"))
    return Design(scenario.plan(), profile, prefix="n", stall_s=0.0)


def test_connections_with_ecn_have_their_own_addresses() -> None:
    """A route sets ECN, so both ends are told apart by address."""
    design = hosts_of(dumbbell(traffic__downloads__ecn_share=0.5))
    places, job = design.places(), design.job()
    far, near = places["far"], places["near"]
    assert far["namespace"] == "/run/netns/n0"
    assert {each["tcp"] for each in far["also"]} == {each["tcp"] for each in near["also"]}
    ((with_ecn,), (at_near,)) = (
        [each["address"] for each in place["also"] if each["address"] != place["address"]]
        for place in (far, near)
    )
    metrics = {route["to"]: route["metrics"] for route in job["routes"]["n0"]}
    assert metrics[at_near] == {"features": 1}
    assert metrics[near["address"]] == {}
    assert ("lo", with_ecn, 32) in job["addresses"]["n0"]


def test_two_servers_of_a_node_have_an_address_each() -> None:
    places = hosts_of(Scenario.parse(DUMBBELL + SECOND_SERVER)).places()
    server = places["resolver"]
    # The second one is asked over TCP alone.
    assert {each["server"] for each in server["also"]} == {4}
    assert server["address"] not in {each["address"] for each in server["also"]}
    # Routers have no sockets.
    assert places.keys() == {"far", "resolver", "near", "stubs"}


def test_a_flood_forges_addresses_that_are_discarded() -> None:
    flood = 'kind = "flood"\nname = "f"\nsource = "far"\nserver = "resolver"\nper_second = 9\n'
    scenario = Scenario.parse(f"{DUMBBELL}\n[[traffic]]\n{flood}")
    design = hosts_of(scenario)
    places, job = design.places(), design.job()
    ((number, network),) = places["far"]["forged"].items()
    assert scenario.plan()["applications"][number]["name"] == "f"
    own, server = ({route["to"]: route for route in job["routes"][name]} for name in ("n0", "n1"))
    assert own[f"{network}/16"]["device"] is None
    # Its replies go back to it.
    assert server[f"{network}/16"]["device"] == "l2"


def test_a_datagram_without_room_for_its_meaning_is_refused() -> None:
    text = DUMBBELL + '[[traffic]]\nkind = "ping"\nname = "p"\npairs = [["near", "far"]]\n'
    scenario = Scenario.parse(text, set={"traffic.p.packet": "36 B"})
    (refusal,) = hosts_of(scenario).refusals
    assert (refusal.key, refusal.why) == ("traffic.p.packet", "a datagram needs 40 B here")


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PROGRAM", tmp_path / "narrows-live")
    with pytest.raises(BackendError, match=r"narrows-live: no such program; hint: .*make setup"):
        live.give({"links": []}, {}, (), tmp_path)
