"""Floods: what they lower to, what is refused, and what clients see."""

from __future__ import annotations

from typing import Any

import pytest

from narrows import Scenario, ScenarioError, run
from narrows.report.extras import extra_plots, headlines
from narrows.scenario.traffic.flood import FLOODS

from .test_bad_input import GOOD, with_change

S = 10**12

FLOOD: dict[str, Any] = {
    "kind": "flood",
    "name": "flood",
    "source": "r1",
    "server": "a",
    "per_second": 1000,
}


def lowered(**keys: Any) -> dict[str, Any]:
    plan = Scenario.from_dict(with_change("traffic/0", {**FLOOD, **keys})).plan()
    flood = plan["applications"][0]["kind"]["flood"]
    # The server is the DNS group's, which is lowered later.
    assert "dns-server" in plan["applications"][flood["server"]]["kind"]
    return dict(flood)


def test_syns_are_the_default() -> None:
    flood = lowered()
    assert flood["of"] == "syns"
    assert flood["interval"] == S // 1000
    assert (flood["addresses"], flood["spacing"]) == (1000, "poisson")


def test_queries_have_lengths() -> None:
    flood = lowered(of="queries", reply="3 kB", spacing="even")
    assert flood["of"] == {"queries": {"query": 40, "reply": 3000, "payload": 1232}}


def test_the_server_has_the_limits_of_linux_unless_told_otherwise() -> None:
    def limits(**answers: Any) -> dict[str, Any]:
        values = with_change("dns/0/answers", answers)
        plan = Scenario.from_dict(values).plan()
        kinds = [application["kind"] for application in plan["applications"]]
        (server,) = (kind["dns-server"] for kind in kinds if "dns-server" in kind)
        return dict(server["tcp"]["half_open"])

    defaults = {
        **{"max_syn_backlog": 4096, "synack_retries": 5, "cookies": "when-full"},
        "synack_timers": "exact",
    }
    assert limits() == defaults
    given = {"max_syn_backlog": 256, "synack_retries": 0, "synack_timers": "wheel"}
    expected = {**given, "cookies": "never"}
    given["syncookies"] = "never"
    assert limits(**given) == expected


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"server": "r2"}, 'server: "r2" has no DNS server; hint: add [[dns]] with this server'),
        ({"server": "x"}, 'server: "x" is not a node'),
        ({"source": "a"}, "server: is also the source"),
        ({"stop": "1 s", "start": "2 s"}, 'stop: "1 s" is not after the start ("2 s")'),
        ({"query": "50 B"}, 'query: is only for queries; hint: leave it out, or of = "queries"'),
        ({"of": "queries", "reply": "11 B"}, "reply: must be at least"),
        ({"per_second": 0}, "per_second: must be at least 1"),
        ({"addresses": 65_537}, "addresses: must be at most 65536"),
        ({"of": "acks"}, 'of: "acks" is not known here'),
        (
            {"per_second": 10_000_000, "duration": "100 s"},
            "per_second: brings the forged packets to 1000000000; at most 100000000 can be sent",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(keys: dict[str, Any], words: str) -> None:
    table = {**FLOOD, **keys}
    values = {**GOOD, "duration": table.pop("duration", "10 s"), "traffic": [table]}
    with pytest.raises(ScenarioError) as error:
        Scenario.from_dict(values)
    assert f"traffic[0].{words}" in str(error.value)
    assert "\n" not in str(error.value)


def test_without_cookies_clients_wait_and_with_them_they_do_not() -> None:
    def first_attempts(syncookies: str) -> tuple[float, Any]:
        values = with_change("traffic/0", {**FLOOD, "start": "1 s"})
        values["dns"] = [
            {
                "name": "dns",
                "client": "b",
                "server": "a",
                "queries": 20,
                "workers": 5,
                "start": "2 s",
                "transport": "tcp",
                "answers": {"backlog": 64, "syncookies": syncookies},
            }
        ]
        result = run(Scenario.from_dict(values), seed=1)
        quick = result.queries.filter(result.queries.get_column("response_ms") < 900)
        return quick.height / result.queries.height, result.summary["floods"]

    served, with_cookies = first_attempts("when-full")
    starved, without = first_attempts("never")
    assert served == 1.0
    assert starved < 0.7
    assert with_cookies["half_open_max"] == without["half_open_max"] == 65
    assert with_cookies["dropped_percent"] == 0.0
    assert without["cookies_percent"] == 0.0


def test_replies_are_drawn_at_their_rate() -> None:
    flood = {**FLOOD, "of": "queries", "start": "3 s", "spacing": "even", "reply": "1 kB"}
    result = run(Scenario.from_dict(with_change("traffic/0", flood)), seed=1)
    rows = result.table("floods")
    assert rows.get_column("from_s").to_list() == [3.0, *rows.get_column("t_s").to_list()[:-1]]
    shown = {each.name: each.drawing for each in extra_plots({"a": result})}
    (curve,) = shown[FLOODS.plots[1].name].curves
    rates = list(curve.y)
    # No SYN came, so nothing is said of half-open connections.
    assert result.summary["floods"]["half_open_max"] is None
    assert [words for _, words in headlines(result) if "half-open" in words] == []
    # 1028 bytes each millisecond, from the first on.
    assert rates == pytest.approx([8.224] * len(rates), rel=0.01)
