"""Routes against a search that tries every path."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import Scenario, ScenarioError
from narrows.scenario import Direction, Framing, Pfifo
from narrows.scenario.routing import Network

NODES = "abcdef"


def link(name: str, source: str, target: str, delay: int) -> Direction:
    return Direction(
        name, source, target, 10**6, delay, Framing(), Pfifo(limit=1), None, None, 0.0, False
    )


def every_route(
    links: Sequence[Direction], hosts: frozenset[str], source: str, target: str
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
                    (way.delay, way.name, index)
                    for index, way in enumerate(links)
                    if (way.source, way.target) == ends
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
