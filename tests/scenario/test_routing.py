"""Routes against a search that tries every path."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Scenario, ScenarioError
from narrows.scenario.links import Edge
from narrows.scenario.routing import Network

from .. import plans

NODES = "abcdef"


def link(name: str, source: str, target: str, delay: int) -> Edge:
    return Edge(name, source, target, delay)


def every_route(
    links: Sequence[Edge], hosts: frozenset[str], source: str, target: str
) -> tuple[int, ...] | None:
    """The best route, found by listing every sequence of distinct nodes."""
    best: tuple[object, ...] | None = None
    others = [node for node in NODES if node not in (source, target) and node not in hosts]
    for count in range(len(others) + 1):
        for between in itertools.permutations(others, count):
            nodes = (source, *between, target)
            hops = []
            for ends in itertools.pairwise(nodes):
                fits = [
                    (link.delay, link.name, index)
                    for index, link in enumerate(links)
                    if (link.source, link.target) == ends
                ]
                if not fits:
                    break
                hops.append(min(fits))
            else:
                cost = (len(hops), sum(hop[0] for hop in hops), nodes, [hop[2] for hop in hops])
                best = cost if best is None or cost < best else best
    return None if best is None else tuple(best[3])  # type: ignore[call-overload]


two_way = st.tuples(
    st.sampled_from(list(itertools.combinations(NODES, 2))),
    st.integers(0, 2),
    st.integers(0, 2),
)


@settings(deadline=None)
@given(st.lists(two_way, max_size=12), st.frozensets(st.sampled_from(NODES), max_size=3))
def test_routes_are_the_best_of_all(
    drawn: list[tuple[tuple[str, str], int, int]], hosts: frozenset[str]
) -> None:
    links = []
    for number, ((one, other), forth, back) in enumerate(drawn):
        links.append(link(f"l{number}.forward", one, other, forth))
        links.append(link(f"l{number}.backward", other, one, back))
    network = Network(links, hosts)
    for source, target in itertools.permutations(NODES, 2):
        assert network.route(source, target) == every_route(links, hosts, source, target)


def test_a_thousand_hosts_around_two_routers_are_quick_to_route() -> None:
    links = []
    for number in range(1000):
        links += [
            link(f"u{number}", f"s{number}", "r1", 1),
            link(f"v{number}", "r1", f"s{number}", 1),
        ]
        links += [
            link(f"x{number}", "r2", f"d{number}", 1),
            link(f"y{number}", f"d{number}", "r2", 1),
        ]
    links += [link("core", "r1", "r2", 5), link("back", "r2", "r1", 5)]
    network = Network(links)
    for number in range(1000):
        there = network.route(f"s{number}", f"d{number}")
        assert there is not None
        assert [links[index].target for index in there] == ["r1", "r2", f"d{number}"]


def chain(length: int) -> str:
    head = 'name = "chain"\nduration = "1 s"\n'
    links = "".join(
        f'[[links]]\nname = "l{n}"\nbetween = ["n{n}", "n{n + 1}"]\nrate = "1 Mbit/s"\n'
        for n in range(length)
    )
    traffic = f'[[traffic]]\nkind = "bulk"\nname = "t"\nsender = "n0"\nreceiver = "n{length}"\n'
    return head + links + traffic


def test_routes_have_at_most_64_hops() -> None:
    Scenario.parse(chain(64))
    with pytest.raises(ScenarioError, match=r"there is no path .* of at most 64 hops"):
        Scenario.parse(chain(65))


def test_a_search_that_would_take_too_long_is_refused() -> None:
    size = 45
    text = 'name = "grid"\nduration = "1 s"\n'
    for row, column in itertools.product(range(size), repeat=2):
        for name, down, right in (("d", 1, 0), ("r", 0, 1)):
            if row + down < size and column + right < size:
                text += (
                    f'[[links]]\nname = "{name}{row}-{column}"\nrate = "1 Mbit/s"\n'
                    f'between = ["n{row}-{column}", "n{row + down}-{column + right}"]\n'
                )
    pairs = [f'["n{row}-{column}", "n0-0"]' for row in range(30) for column in range(1, 30)]
    text += f'[[traffic]]\nkind = "bulk"\nname = "t"\npairs = [{", ".join(pairs)}]\n'
    with pytest.raises(ScenarioError, match="make more routes than can be computed"):
        Scenario.parse(text)


RING = """
name = "ring"
duration = "1 s"
""" + "".join(
    f'[[links]]\nname = "{one}{other}"\nbetween = ["{one}", "{other}"]\nrate = "1 Mbit/s"\n'
    for one, other in ["ab", "bc", "cd", "de", "ea", "xa", "yc"]
)
FLOW = '[[traffic]]\nkind = "bulk"\nname = "t"\nsender = "x"\nreceiver = "y"\n'
DNS = '[[dns]]\nname = "d"\nclient = "x"\nserver = "y"\nqueries = 1\n'


def hops(text: str, key: str) -> list[str]:
    plan = Scenario.parse(text).plan()
    (first, *_) = plans.connections(plan) or plans.settings(plan)
    return [link["name"] for link in plans.hops(plan, first[key])]


def test_routes_can_be_given_for_each_direction() -> None:
    short = ["xa.forward", "ab.forward", "bc.forward", "yc.backward"]
    back = ["yc.forward", "bc.backward", "ab.backward", "xa.backward"]
    long = ["xa.forward", "ea.backward", "de.backward", "cd.backward", "yc.backward"]
    for text in (FLOW, DNS):
        assert hops(RING + text, "there") == short
        for route in ('["x", "a", "e", "d", "c", "y"]', '["a", "e", "d", "c"]', '["e", "d"]'):
            given = RING + text + f"route = {route}\n"
            assert hops(given, "there") == long
            assert hops(given, "back") == back
        given = RING + text + 'route_back = ["d"]\n'
        assert hops(given, "there") == short
        assert hops(given, "back") == [
            "yc.forward",
            "cd.forward",
            "de.forward",
            "ea.forward",
            "xa.backward",
        ]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('route = ["a", "d"]', 'traffic[0].route[1]: "d" is not joined to "a" by a link'),
        ('route = ["f"]', 'traffic[0].route[0]: "f" is not a node; hint: one of'),
        ('route = ["c", "b"]', 'traffic[0].route: visits "b" twice from "x" to "y"'),
        ('route = ["y", "c"]', 'traffic[0].route: visits "c" twice'),
        ("route = []", "traffic[0].route: is empty"),
        ('route_back = ["a", "b"]', 'traffic[0].route_back: visits "b" twice from "y" to "x"'),
    ],
)
def test_routes_that_do_not_hang_together_are_refused(keys: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(RING + FLOW + keys + "\n")
    assert message in str(caught.value)


def test_given_routes_respect_what_forwards_nothing() -> None:
    nodes = '[nodes]\nhosts = ["x", "y", "e"]\nrouters = ["a", "b", "c", "d"]\n'
    with pytest.raises(ScenarioError, match=r'leads through "e", which nodes\.hosts lists'):
        Scenario.parse(RING + FLOW + 'route = ["a", "e", "d"]\n' + nodes)
