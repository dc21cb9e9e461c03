"""The tables of a scenario, before anything is checked between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from narrows.scenario.base import Table
from narrows.scenario.changes import Change
from narrows.scenario.dns import Dns
from narrows.scenario.links import Link
from narrows.scenario.measure import Measure
from narrows.scenario.monitor import Monitor
from narrows.scenario.quantities import Name, PositiveSpan
from narrows.scenario.routing import Network
from narrows.scenario.traffic import KINDS, Countable, Group, Traffic


class Nodes(Table):
    """Declares the nodes. Without this table, the links' ends are the nodes."""

    hosts: Annotated[tuple[Name, ...], Field(fail_fast=True)] = ()
    """Nodes that send and receive but forward nothing."""
    routers: Annotated[tuple[Name, ...], Field(fail_fast=True)] = ()
    """Nodes that forward."""


class Tables(Table):
    """A scenario's keys, and what can be counted in them."""

    name: Name
    """The scenario's name."""
    description: Annotated[str, Field(max_length=10_000)] = ""
    """What it is about."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)] = 1
    """Each component's random numbers derive from it and the component's name."""
    duration: PositiveSpan
    """The run ends here at the latest."""
    end: Literal["dns"] | None = None
    """`"dns"` ends the run as soon as every resolver worker is done; each group then needs
    `queries`."""
    event_limit: Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)] = 10_000_000_000
    """After this many events, the run stops and is marked as partial."""
    nodes: Nodes | None = None
    """The nodes; optional, because links name them too. If this table is given, it must list every
    node of every link, and hosts forward nothing."""
    links: Annotated[tuple[Link, ...], Field(min_length=1, max_length=50_000, fail_fast=True)]
    """Two-way links between nodes."""
    changes: Annotated[tuple[Change, ...], Field(max_length=10_000, fail_fast=True)] = ()
    """Changes of links at given times."""
    traffic: Annotated[tuple[Traffic, ...], Field(max_length=10_000, fail_fast=True)] = ()
    """Groups of traffic."""
    dns: Annotated[tuple[Dns, ...], Field(max_length=10_000, fail_fast=True)] = ()
    """Groups of resolver workers."""
    monitor: Monitor = Monitor.usual()
    """What is sampled and captured."""
    measure: Measure | None = None
    """The window of time that the metrics of the summary cover; by default, the whole run."""

    def groups(self) -> Iterator[tuple[str, Group]]:
        """All groups that use the network, each after its key: traffic, then resolver workers."""
        yield from ((f"traffic[{index}]", group) for index, group in enumerate(self.traffic))
        yield from ((f"dns[{index}]", group) for index, group in enumerate(self.dns))

    @classmethod
    def countables(cls) -> tuple[Countable, ...]:
        """The things that are counted over all groups of a scenario, each with its bound."""
        groups: list[type[Group]] = [*KINDS.values(), Dns]
        return tuple(dict.fromkeys(of for group in groups for of in group.countables))

    def amounts(self) -> dict[Countable, int]:
        """How many of each thing that its groups count they have together."""
        found: dict[Countable, int] = {}
        for _, group in self.groups():
            found |= {of: 0 for of in group.countables if of not in found}
            for amount in group.amounts():
                found[amount.of] += amount.number
        return found

    def window(self) -> tuple[int, int] | None:
        """The start and end of the declared window, in picoseconds; None if none is declared."""
        if self.measure is None:
            return None
        start, end = (getattr(self.measure, key) for key in ("from", "to"))
        return start or 0, self.duration if end is None else end

    def network(self) -> Network:
        """The links and hosts, for finding routes."""
        hosts = () if self.nodes is None else self.nodes.hosts
        edges = [
            edge for link in self.links for edge in (link.edge("forward"), link.edge("backward"))
        ]
        return Network(edges, frozenset(hosts))
