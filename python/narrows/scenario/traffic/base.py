"""What all groups that use the network have in common: `[[traffic]]` and `[[dns]]`.

A group names nodes, says how many things it consists of, and lowers itself to the plan's
applications. Code that checks, counts, copies, documents or shows scenarios uses this interface
and does not depend on any kind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from narrows.scenario.amounts import Duration
from narrows.scenario.base import Table
from narrows.scenario.codepoints import Dscp
from narrows.scenario.quantities import Name, Span

if TYPE_CHECKING:
    from narrows.records import Record
    from narrows.scenario.planner import Planner


@dataclass(frozen=True)
class Countable:
    """Things whose number is limited, in all groups of a scenario together."""

    one: str
    many: str
    most: int
    can_be: str = "held"
    """The word for errors: no more of them can be `held`, or `recorded`."""


class Amount(NamedTuple):
    """How many of something a group has."""

    number: int
    of: Countable
    key: str
    """The group's key to lower if all groups together have too many."""
    or_else: str = ""
    """Other keys that may be lowered instead, such as `warm_up or workers`."""


class Leg(NamedTuple):
    """A path on which a group sends."""

    source: str
    target: str
    given: tuple[str, ...] | None
    """The nodes that the scenario gives for it; None: the shortest path."""
    given_key: str
    """The group's key that gives these nodes."""
    key: str
    """The group's key to name in an error if there is no path."""


class Names(NamedTuple):
    """The names that a group asks a DNS group for."""

    key: str
    """The group's key that names the DNS group."""
    group: str
    """That DNS group, which asks only for others."""
    node: str
    """The node at which both are."""
    most: int
    """The most names at once."""


class Group(Table):
    """A group of traffic, with its ends in the network."""

    copied: ClassVar[tuple[str, ...]] = ()
    """Keys that hold lists of nodes, or of pairs of them: `count` copies their entries."""
    listed: ClassVar[tuple[str, ...]] = ()
    """Keys that name files with lists."""
    countables: ClassVar[tuple[Countable, ...]] = ()
    """What `amounts` counts. The first is what the group consists of."""
    heading: ClassVar[str] = ""
    """The heading in the reference for what several kinds of group share; empty: none."""
    records: ClassVar[tuple[Record, ...]] = ()
    """Its own tables, with their part in summaries and reports."""

    name: Name
    """Unique among traffic and DNS groups."""
    start: Span = Duration("0 s")
    """When the group begins."""
    dscp: Dscp = 0
    """The Differentiated Services code point of what its hosts send (RFC 2474): a number from 0 to
    63, or a name such as `"CS1"`, `"AF41"`, `"EF"`, `"VA"` or `"LE"`. Both ends use it."""

    @abstractmethod
    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Each key below the group that names a node, and the node."""

    @abstractmethod
    def legs(self) -> Iterator[Leg]:
        """Each path on which the group sends, or may send."""

    @abstractmethod
    def amounts(self) -> Iterator[Amount]:
        """How many things the group has, in the order of `countables`."""

    def beginnings(self) -> tuple[int, int]:
        """When the first and the last of its parts begin, at the latest."""
        return self.start, self.start

    @property
    def wants_ecn(self) -> bool:
        """Whether some of its packets can be marked."""
        return False

    @property
    def has_connections(self) -> bool:
        """Whether it may open TCP or QUIC connections."""
        return False

    def recorded(self, _duration: int) -> Iterator[Amount]:
        """Rows that it may record in a run of this duration, if there may be too many."""
        return iter(())

    def dns_servers(self) -> Iterator[tuple[str, str]]:
        """Each key below the group that names a DNS server's node, and the node."""
        return iter(())

    def asks_for_names(self) -> Iterator[Names]:
        """The names for which it asks DNS groups."""
        return iter(())

    @abstractmethod
    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """Its applications in the plan: the first gets the index `planner.position`."""

    def codepoints(self) -> tuple[int, ...]:
        """The code points of its applications; the last also holds for further ones."""
        return (self.dscp,)

    def application(self, kind: str, **settings: Any) -> dict[str, Any]:
        """An application of the plan, with the group's name."""
        return {"name": self.name, "kind": {kind: settings}}
