"""Links whose routers find each other by ARP: what a scenario may say, and what a run records."""

from __future__ import annotations

import pytest

from narrows import Scenario, ScenarioError, run

NODES = ["client", "near", "far", "server"]


def _scenario(arp_on: str, dns: str = "") -> Scenario:
    names = zip(["left", "middle", "right"], NODES, NODES[1:], strict=False)
    links = [
        f'''
        [[links]]
        name = "{name}"
        between = ["{one}", "{other}"]
        rate = "10 Mbit/s"
        delay = "1 ms"
        neighbours = "{"arp" if name == arp_on else "known"}"
        '''
        for name, one, other in names
    ]
    return Scenario.parse(
        """
        name = "neighbours"
        duration = "100 s"

        [[dns]]
        name = "dns"
        client = "client"
        server = "server"
        workers = 1
        queries = 50
        think_mean = "1 s"
        """
        + dns
        + "".join(links)
    )


def test_an_end_of_traffic_is_no_router() -> None:
    with pytest.raises(ScenarioError, match="is for two routers, and client is an end of dns"):
        _scenario(arp_on="left")


def test_a_route_may_name_routers_that_resolve_addresses() -> None:
    scenario = _scenario(arp_on="middle", dns='route = ["near", "far"]\n')
    assert [link.neighbours for link in scenario.links] == ["known", "arp", "known"]


def test_a_run_records_what_routers_know() -> None:
    result = run(_scenario(arp_on="middle"), seed=1)
    rows = result.tables["neighbours"]
    near = rows.filter(node="near")
    # The first query makes `near` ask; from the request, `far` learns the address too.
    assert near.get_column("state").to_list()[:2] == ["incomplete", "reachable"]
    assert rows.filter(node="far").get_column("state")[0] == "stale"
    assert result.summary["neighbours"]["failures"] == 0
    assert result.summary["dns"]["first_attempt_percent"] == 100.0
    # The first query waits for a round trip between the routers.
    first, second = result.queries.get_column("response_ms").to_list()[:2]
    assert 2.0 <= first - second < 2.2


def test_known_addresses_are_not_resolved() -> None:
    result = run(_scenario(arp_on="none"), seed=1)
    assert "neighbours" not in result.tables
    assert "neighbours" not in result.summary
