"""TCP connections: what all groups of them have in common."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.scenario.quantities import PositiveSpan, Probability, refuse
from narrows.scenario.rules import Faults, rule
from narrows.scenario.tcp import Tcp
from narrows.scenario.traffic.base import Amount, Countable
from narrows.scenario.traffic.flows import Flows

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner

CONNECTIONS = Countable("connection", "connections", 100_000)


class Connections(Flows):
    """A group of TCP connections."""

    countables: ClassVar[tuple[Countable, ...]] = (CONNECTIONS,)
    heading: ClassVar[str] = "groups of TCP connections"

    connections: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    """Connections for each pair."""
    ecn_share: Probability | None = None
    """This share of the connections, spread evenly over the group, negotiates ECN; the others
    do not. Without it, `tcp.ecn` decides for all."""
    tcp: Tcp = Tcp.usual()
    """TCP settings of both ends."""
    opener: Literal["sender", "receiver"] = "sender"
    """The end that sends the SYN: the sender for an upload, the receiver for a download. It matters
    if one direction is congested, because a SYN that is sent again no longer asks for ECN."""
    stop: PositiveSpan | None = None
    """From then on, the applications write nothing new: data without end stop at once, a burst that
    has begun is sent to its end, and the connections close."""

    @rule
    def _has_one_setting_of_ecn(self) -> Faults:
        if self.ecn_share is not None and self.tcp.ecn is not None:
            yield refuse("excludes tcp.ecn", "give one or the other", "ecn_share")
        if self.ecn_share is not None and self.tcp.counts_marks:
            yield refuse(
                f"excludes congestion {self.tcp.congestion}, which always negotiates ECN",
                "leave it out",
                "ecn_share",
            )

    @property
    def each(self) -> int:
        """Connections for each pair."""
        return self.connections

    @property
    def has_connections(self) -> bool:
        """Whether it may open connections: it does."""
        return True

    def amounts(self) -> Iterator[Amount]:
        """Its connections."""
        yield Amount(self.total, CONNECTIONS, "connections")

    def uses_ecn(self, index: int) -> bool | None:
        """Whether connection `index` of the group negotiates ECN; None: its TCP settings decide.

        The share is spread as Bresenham draws a line: of the first n connections, the number
        with ECN is always the whole part of n times the share.

        Examples:
            >>> from narrows.scenario import Bulk
            >>> group = Bulk(name="b", sender="a", receiver="b", connections=4, ecn_share=0.5)
            >>> [group.uses_ecn(index) for index in range(4)]
            [False, True, False, True]
        """
        if self.ecn_share is None:
            return None
        # In whole connections, so that no rounding error of the share adds up.
        share, total = round(self.ecn_share * self.total), self.total
        return (index + 1) * share // total > index * share // total

    @property
    def wants_ecn(self) -> bool:
        """Whether one of its connections negotiates ECN."""
        if self.ecn_share is None:
            return self.tcp.wants_ecn
        return round(self.ecn_share * self.total) > 0

    def lower_connections(self, planner: Planner) -> list[dict[str, Any]]:
        """Its connections in the plan."""
        paths: dict[tuple[str, str], tuple[int, int]] = {}
        connections = []
        for number in range(self.total):
            name = f"{self.name}/{number}"
            chance = partial(planner.chance, name)
            pair = self.pair(number, chance)
            if pair not in paths:
                there = planner.path(*pair, self.route)
                paths[pair] = there, planner.path(*pair[::-1], self.route_back)
            there, back = paths[pair]
            offset = self.offset(number, chance("start") if self.stagger == "random" else None)
            connections.append(
                {
                    "name": name,
                    "there": there,
                    "back": back,
                    "tcp": planner.tcp_settings(self.tcp, ecn=self.uses_ecn(number)),
                    "opener": self.opener,
                    "start": self.start + offset,
                    "stop": self.stop,
                }
            )
        return connections
