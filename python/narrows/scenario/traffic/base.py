"""What groups of everything that uses the network have in common: `[[traffic]]` and `[[dns]]`.

A group names nodes, says how much of it there is, and lowers itself to the plan's applications.
What checks, counts, copies, documents or shows a scenario goes by that, and knows no kind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from narrows.records import Record
from narrows.scenario.amounts import Duration
from narrows.scenario.base import Table
from narrows.scenario.quantities import Name, Span

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner

__all__ = ["Amount", "Countable", "Group", "Leg"]


@dataclass(frozen=True)
class Countable:
    """Things of which a scenario may have so many, in all its groups together."""

    one: str
    many: str
    most: int
    can_be: str = "held"
    """What would fail with more: they cannot be held, or recorded."""


class Amount(NamedTuple):
    """How many of something a group has."""

    number: int
    of: Countable
    key: str
    """Which of the group's keys to lower where all groups have too many."""
    or_else: str = ""
    """Other keys that would do: `warm_up or workers`."""


class Leg(NamedTuple):
    """A way on which a group sends."""

    source: str
    target: str
    given: tuple[str, ...] | None
    """Nodes that the scenario wants on it; None: the shortest path."""
    given_key: str
    """The group's key that gives them."""
    key: str
    """The group's key to blame where there is no path."""


class Group(Table):
    """A group of traffic, with its ends in the network."""

    copied: ClassVar[tuple[str, ...]] = ()
    """Keys that hold lists of nodes, or of pairs of them: `count` copies their entries."""
    listed: ClassVar[tuple[str, ...]] = ()
    """Keys that name files with lists."""
    countables: ClassVar[tuple[Countable, ...]] = ()
    """What `amounts` counts. The first is what the group consists of."""
    heading: ClassVar[str] = ""
    """What several kinds of group are, where the reference has a section for what they share."""
    records: ClassVar[tuple[Record, ...]] = ()
    """Tables of its own, with what summaries and reports make of them."""

    name: Name
    """Unique among traffic and DNS groups."""
    start: Span = Duration("0 s")
    """When the first one begins."""

    @abstractmethod
    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Each key below the group that names a node, and the node."""

    @abstractmethod
    def legs(self) -> Iterator[Leg]:
        """Each way on which it sends, or may send."""

    @abstractmethod
    def amounts(self) -> Iterator[Amount]:
        """How much of it there is, in the order of `countables`."""

    def recorded(self, _duration: int) -> Iterator[Amount]:
        """Rows that it may leave in a run of so long, where their number may be too large."""
        return iter(())

    def dns_servers(self) -> Iterator[tuple[str, str]]:
        """Each key below the group that names a DNS server's node, and the node."""
        return iter(())

    @abstractmethod
    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """Its applications in the plan: the first gets the index `planner.position`."""

    def application(self, kind: str, **settings: Any) -> dict[str, Any]:
        """An application of the plan, with the group's name."""
        return {"name": self.name, "kind": {kind: settings}}
