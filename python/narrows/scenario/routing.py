"""Static routes: fewest hops, then least delay, then the first in the order of node names.

The last rule makes routes the same whatever the order of links in the file. Between the same two
nodes, the link of least delay counts, then the first by name. Nodes with a single neighbour
(or declared as hosts) forward nothing, so that only routers take part in the search: a thousand
hosts around two routers cost two searches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from narrows.scenario.links import Direction
    from narrows.scenario.model import Scenario

__all__ = ["MOST_HOPS", "Network", "RoutesError"]

MOST_HOPS = 64
"""Longest route: Linux's initial TTL."""

# Labels (a router reached from a router) that a network may need: bounds time and memory.
_MOST_LABELS = 200_000


class RoutesError(Exception):
    """More routes than can be computed in bounded time."""


class _Label(NamedTuple):
    """A path's cost, in the order in which costs are compared, and its links."""

    hops: int
    delay: int
    nodes: tuple[str, ...]
    links: tuple[int, ...]

    def after(self, other: _Label) -> _Label:
        """This path, taken after another that ends where this one starts."""
        return _Label(
            other.hops + self.hops,
            other.delay + self.delay,
            other.nodes + self.nodes,
            other.links + self.links,
        )


class Network:
    """The directed links of a scenario, and the routes over them."""

    def __init__(self, links: list[Direction], hosts: frozenset[str] = frozenset()) -> None:
        """Takes directed links, in the plan's order, and the nodes that must not forward."""
        best: dict[tuple[str, str], int] = {}
        for index, link in enumerate(links):
            ends = (link.source, link.target)
            rival = links[best[ends]] if ends in best else None
            if rival is None or (link.delay, link.name) < (rival.delay, rival.name):
                best[ends] = index
        self._out: dict[str, list[tuple[str, _Label]]] = {}
        self._in: dict[str, list[tuple[str, _Label]]] = {}
        for (source, target), index in best.items():
            hop = _Label(1, links[index].delay, (target,), (index,))
            self._out.setdefault(source, []).append((target, hop))
            self._in.setdefault(target, []).append((source, hop))
        self._routers = {
            node for node, ways in self._out.items() if len(ways) > 1 and node not in hosts
        }
        self._core = {
            node: [(target, hop) for target, hop in self._out[node] if target in self._routers]
            for node in self._routers
        }
        self._trees: dict[str, dict[str, _Label]] = {}
        self._labels = 0

    @classmethod
    def of(cls, scenario: Scenario) -> Network:
        """The network of a scenario."""
        hosts = frozenset() if scenario.nodes is None else frozenset(scenario.nodes.hosts)
        return cls(
            [
                way
                for link in scenario.links
                for way in (link.direction("forward"), link.direction("backward"))
            ],
            hosts,
        )

    def route(self, source: str, target: str) -> tuple[int, ...] | None:
        """Indices of the links from one node to another; None where there is no path.

        Raises:
            RoutesError: The search would take too long.
        """
        best = min(self._paths(source, target), default=None)
        return None if best is None or best.hops > MOST_HOPS else best.links

    def _paths(self, source: str, target: str) -> Iterator[_Label]:
        """The best path over each pair of first and last router, and the direct link."""
        start = _Label(0, 0, (), ())
        firsts = [(source, start)] if source in self._routers else self._out.get(source, [])
        lasts = [(target, start)] if target in self._routers else self._in.get(target, [])
        for first, hop in firsts:
            if first == target:
                yield hop
            if first not in self._routers:
                continue
            tree = self._tree(first)
            for last, end in lasts:
                if last in tree:
                    yield end.after(tree[last].after(hop))

    def _tree(self, root: str) -> dict[str, _Label]:
        """The best path from a router to every router, by breadth-first search in layers."""
        if root in self._trees:
            return self._trees[root]
        tree = {root: _Label(0, 0, (), ())}
        layer = [root]
        for _ in range(MOST_HOPS):
            found: dict[str, _Label] = {}
            for node in layer:
                self._labels += len(self._core[node])
                if self._labels > _MOST_LABELS:
                    raise RoutesError
                for target, hop in self._core[node]:
                    if target in tree:
                        continue
                    label = hop.after(tree[node])
                    if target not in found or label < found[target]:
                        found[target] = label
            tree.update(found)
            layer = list(found)
            if not layer:
                break
        self._trees[root] = tree
        return tree
