"""Static routes: fewest hops, then least delay, then the first in the order of node names.

The last rule makes routes independent of the order of links in the file. Between the same two
nodes, the link with the least delay counts, then the first by name. Nodes with a single neighbour,
or declared as hosts, forward nothing, so only routers take part in the search: a thousand hosts
around two routers cost two searches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from narrows.scenario.links import Edge

MOST_HOPS = 64
"""Longest route: Linux's initial TTL."""

# Labels (a router reached from a router) that a network may need: bounds time and memory.
_MOST_LABELS = 200_000


class RoutesError(Exception):
    """There are more routes than can be computed in bounded time."""


class PathError(Exception):
    """A given path is not connected."""

    def __init__(self, position: int | None, message: str) -> None:
        """`position` is the index of the wrong entry of the path; None: the whole path."""
        super().__init__(message)
        self.position = position
        self.message = message


class _Label(NamedTuple):
    """A path's costs, in the order in which they are compared, and its links."""

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

    def __init__(self, links: Sequence[Edge], hosts: frozenset[str] = frozenset()) -> None:
        """Takes directed links in the plan's order, and the nodes that must not forward."""
        best: dict[tuple[str, str], int] = {}
        for index, link in enumerate(links):
            ends = (link.source, link.target)
            rival = links[best[ends]] if ends in best else None
            if rival is None or (link.delay, link.name) < (rival.delay, rival.name):
                best[ends] = index
        self._links = links
        self._hosts = hosts
        self._out: dict[str, list[int]] = {}
        self._in: dict[str, list[int]] = {}
        for (source, target), index in best.items():
            self._out.setdefault(source, []).append(index)
            self._in.setdefault(target, []).append(index)
        self._routers = {
            node for node, edges in self._out.items() if len(edges) > 1 and node not in hosts
        }
        self._core = {
            node: [
                self._hop(index)
                for index in self._out[node]
                if links[index].target in self._routers
            ]
            for node in self._routers
        }
        self._trees: dict[str, dict[str, _Label]] = {}
        self._labels = 0

    def _hop(self, index: int) -> _Label:
        link = self._links[index]
        return _Label(1, link.delay, (link.target,), (index,))

    def route(self, source: str, target: str) -> tuple[int, ...] | None:
        """Indices of the links from one node to another; None if there is no path.

        Raises:
            RoutesError: The search would take too long.
        """
        best = min(self._paths(source, target), default=None)
        return None if best is None or best.hops > MOST_HOPS else best.links

    def along(self, source: str, nodes: Sequence[str], target: str) -> tuple[int, ...]:
        """Indices of the links from one node to another over given nodes.

        Each given node is a neighbour of the one before. If they do not begin with the source or
        end with the target, the shortest path fills the gap.

        Raises:
            PathError: There is no such path.
            RoutesError: The search would take too long.
        """
        path: list[int] = []
        if nodes[0] != source:
            path += self._shortest(source, nodes[0], 0)
        for position, (near, far) in enumerate(pairwise(nodes), 1):
            path.append(self._link(near, far, position))
        if nodes[-1] != target:
            path += self._shortest(nodes[-1], target, len(nodes) - 1)
        seen = {source}
        for index in path:
            node = self._links[index].target
            if node in seen:
                raise PathError(None, f'visits "{node}" twice from "{source}" to "{target}"')
            if node in self._hosts and node != target:
                raise PathError(None, f'leads through "{node}", which nodes.hosts lists')
            seen.add(node)
        if len(path) > MOST_HOPS:
            raise PathError(None, f"makes more than {MOST_HOPS} hops")
        return tuple(path)

    def _shortest(self, source: str, target: str, position: int) -> tuple[int, ...]:
        path = self.route(source, target)
        if path is None:
            raise PathError(position, f'has no path from "{source}" to "{target}"')
        return path

    def _link(self, near: str, far: str, position: int) -> int:
        """The link between two neighbours; `position` is the index of the second one."""
        out, into = self._out.get(near, []), self._in.get(far, [])
        # A router may have tens of thousands of neighbours.
        for index in min(out, into, key=len):
            if self._links[index].source == near and self._links[index].target == far:
                return index
        raise PathError(position, f'"{far}" is not joined to "{near}" by a link')

    def _paths(self, source: str, target: str) -> Iterator[_Label]:
        """The best path over each pair of first and last router, and the direct link."""
        start = _Label(0, 0, (), ())
        links = self._links
        firsts, lasts = [(source, start)], [(target, start)]
        if source not in self._routers:
            firsts = [(links[i].target, self._hop(i)) for i in self._out.get(source, [])]
        if target not in self._routers:
            lasts = [(links[i].source, self._hop(i)) for i in self._in.get(target, [])]
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
                for hop in self._core[node]:
                    target = hop.nodes[0]
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
