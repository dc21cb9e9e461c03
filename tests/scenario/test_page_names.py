"""Pages that resolve their names, in the language: the plan, what is measured, what is refused."""

from __future__ import annotations

import pytest

from narrows import Scenario, run
from narrows.errors import ScenarioError

TEXT = """
name = "names"
duration = "30 s"

[[links]]
name = "line"
between = ["home", "isp"]
rate = "100 Mbit/s"
delay = "10 ms"

[[traffic]]
kind = "page"
name = "web"
client = "home"
server = "isp"
loads = 3
objects = [
    { name = "page", size = "1 kB" },
    { name = "image", size = "1 kB", number = 5, after = ["page"] },
]
resolver = "stub"
hosts = 3

[[dns]]
name = "stub"
client = "home"
server = "isp"
queries = 0
"""


def test_each_name_is_a_server_with_its_own_connections() -> None:
    kinds = [each["kind"] for each in Scenario.parse(TEXT).plan(seed=1)["applications"]]
    (place,) = [place for place, kind in enumerate(kinds) if "dns-client" in kind]
    (loads,) = [kind["page"] for kind in kinds if "page" in kind]
    asks = kinds[place]["dns-client"]
    assert (asks["queries"], asks["workers"]) == (0, 3)
    assert loads["resolver"] == {"client": place, "cached": 0.0}
    assert loads["servers"] == [loads["servers"][0]] * 3
    assert [entry["server"] for entry in loads["objects"]] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("transport", ["udp", "tcp", "tls", "https", "quic", "http3"])
def test_the_load_time_contains_the_names(transport: str) -> None:
    text = TEXT + f'transport = "{transport}"\n'
    found = run(Scenario.parse(text))
    without = run(Scenario.parse(text), set={"traffic.web.cached": 1.0})
    trips = {"udp": 1, "tcp": 2, "tls": 3, "https": 3, "quic": 2, "http3": 2}[transport]
    # The page's own name, and then those of the others at once.
    expected = 2 * trips * 0.02
    times, others = found.summary["pages"], without.summary["pages"]
    assert times["completed"] == others["completed"] == 3
    more = times["load_mean_s"] - others["load_mean_s"]
    assert more == pytest.approx(expected, abs=0.004)
    names = found.summary["lookups"]
    assert (names["names"], names["cached"], names["failed"]) == (9, 0, 0)
    assert names["waited_mean_s"] == pytest.approx(expected, abs=0.004)
    assert names["waited_share"] == pytest.approx(expected / times["load_mean_s"], rel=0.05)
    assert set(found.attempts["transport"]) == {transport}
    # Each lookup names its query.
    lookups, queries = found.table("lookups"), found.queries
    assert sorted(lookups["query"].to_list()) == queries["query"].to_list()
    assert without.queries.is_empty()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'resolver = "stub"',
            'resolver = "other"',
            'traffic[0].resolver: "other" is not a DNS group, so nobody knows where the hosts are; '
            'hint: add [[dns]] with name = "other" and queries = 0',
        ),
        (
            "queries = 0",
            "queries = 5",
            'traffic[0].resolver: "stub" has queries of its own; '
            "hint: set queries = 0 in stub, or name a group that has it",
        ),
        (
            'client = "home"\nserver = "isp"\nqueries',
            'client = "isp"\nserver = "home"\nqueries',
            'traffic[0].resolver: "stub" asks from isp, but the browsers are at home; '
            "hint: name a group whose client is home",
        ),
        (
            'resolver = "stub"\nhosts = 3',
            "",
            "dns[0].queries: is 0, but no page asks this group; "
            'hint: give a number, or a page with resolver = "stub"',
        ),
        ('resolver = "stub"', "", "traffic[0].hosts: has no effect without a resolver"),
        ("hosts = 3", "hosts = 7", "traffic[0].hosts: must be 1 to 6: each server has a name"),
        ("hosts = 3", "cached = 1.5", "traffic[0].cached: "),
        ("queries = 0", "queries = 0\nworkers = 3", "dns[0].workers: has no effect with queries"),
        ("queries = 0", "queries = 0\narrivals = { per_second = 9 }", "dns[0].arrivals: has no"),
        ('duration = "30 s"', 'duration = "30 s"\nend = "dns"', "end: "),
        ("loads = 3", "browsers = 50000", "traffic[0].resolver: stub would be asked for 150000"),
    ],
)
def test_what_nobody_could_resolve_is_refused(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(ScenarioError) as refused:
        Scenario.parse(TEXT.replace(old, new))
    assert said in str(refused.value)


def test_a_name_without_an_answer_fails_its_page() -> None:
    text = TEXT.replace(
        'delay = "10 ms"', 'delay = "10 ms"\nbackward = { middlebox = { drop_dns_above = "13 B" } }'
    )
    found = run(Scenario.parse(text + 'transport = { kind = "udp", retry = ["2 s"] }\n'))
    pages, names = found.summary["pages"], found.summary["lookups"]
    assert (pages["failed"], pages["completed"], names["failed"]) == (3, 0, 3)
    assert names["lookup_p50_ms"] == pytest.approx(2000)
    assert names["waited_share"] is None


def test_without_a_resolver_there_is_no_such_table() -> None:
    text = TEXT[: TEXT.index("[[dns]]")].replace('resolver = "stub"\nhosts = 3', "")
    found = run(Scenario.parse(text))
    assert found.summary["pages"]["completed"] == 3
    assert "lookups" not in found.summary
    assert "lookups" not in found.tables
