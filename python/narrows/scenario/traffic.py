"""TCP traffic: groups of connections and what their applications send."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Annotated, Literal

from pydantic import Field, model_validator

from narrows.scenario.base import Table
from narrows.scenario.draws import Pauses, Sizes, SpanDistribution
from narrows.scenario.quantities import (
    Name,
    Path,
    PositiveSpan,
    Probability,
    Span,
    TransferSize,
    refuse,
    span_text,
)
from narrows.scenario.tcp import Tcp

__all__ = ["Bulk", "Ftp", "Group", "OnOff", "Once", "Traffic"]

Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=100_000, fail_fast=True)]
RampPoint = tuple[Span, Annotated[int, Field(strict=True, ge=0, le=100_000)]]
Ramp = Annotated[tuple[RampPoint, ...], Field(min_length=1, max_length=10_000, fail_fast=True)]


class Group(Table):
    """A group of TCP connections."""

    name: Name
    """Unique among traffic and DNS groups."""
    sender: Name | None = None
    """The data's sender: a node. With `receiver`, instead of `pairs`."""
    receiver: Name | None = None
    """The data's receiver: a node."""
    pairs: Annotated[tuple[tuple[Name, Name], ...], Field(fail_fast=True)] | None = None
    """Pairs of sender and receiver, `[["a", "b"], ...]`."""
    connections: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    """Connections for each pair."""
    ecn_share: Probability | None = None
    """This share of the connections, spread evenly over the group, negotiates ECN; the others
    do not. Without it, `tcp.ecn` decides for all."""
    tcp: Tcp = Tcp()
    """TCP settings of both ends."""
    opener: Literal["sender", "receiver"] = "sender"
    """The end that sends the SYN: the sender for an upload, the receiver for a download. It matters
    where one direction is congested, because a SYN that is sent again no longer asks for ECN."""
    route: Path | None = None
    """Nodes that the data pass, neighbours in order, instead of the shortest path. It may leave out
    the sender, the receiver and what lies next to them: the shortest path leads there."""
    route_back: Path | None = None
    """The same from receiver to sender."""
    start: Span = 0
    """When the first connection is opened."""
    spread: Span = 0
    """Connections are opened within this span after `start`."""
    ramp: Literal["constant", "rising"] | Ramp = "constant"
    """How fast: at a constant rate; at a rate that rises from nothing in proportion to time; or as
    a list of times after `start` and the number of connections opened by then,
    `[["0 s", 5], ["60 s", 20]]`, with a constant rate between two entries."""
    stagger: Literal["even", "random"] = "even"
    """At even distances for such a rate, or at random times drawn from the scenario's seed and the
    connection's name."""
    stop: PositiveSpan | None = None
    """The applications write nothing from then on: data without end stop where they are, a burst
    that has begun is sent to its end, and the connections close."""

    @model_validator(mode="after")
    def _is_possible(self) -> Group:
        self._has_ends()
        if self.ecn_share is not None and self.tcp.ecn is not None:
            raise refuse("excludes tcp.ecn", "give one or the other", "ecn_share")
        for key, (sender, receiver) in self.keyed_pairs():
            if sender == receiver:
                raise refuse("joins a node with itself", "name two nodes", key or "receiver")
        self._ramp_is_possible()
        last = self.start + self._longest_offset()
        if self.stop is not None and self.stop <= last:
            raise refuse(
                f'"{span_text(self.stop)}" is not after the last start ("{span_text(last)}")',
                "stop later, or start earlier",
                "stop",
            )
        return self

    def _has_ends(self) -> None:
        single = self.sender is not None or self.receiver is not None
        if single and self.pairs is not None:
            raise refuse("excludes sender and receiver", "give one or the other", "pairs")
        if self.pairs is None and (self.sender is None or self.receiver is None):
            raise refuse("needs sender and receiver, or pairs", 'such as pairs = [["a", "b"]]')
        if self.pairs == ():
            raise refuse("is empty", 'such as [["a", "b"]]', "pairs")

    def _ramp_is_possible(self) -> None:
        if self.ramp == "rising" and not self.spread:
            raise refuse("needs a time to rise in", 'such as spread = "60 s"', "ramp")
        if isinstance(self.ramp, str):
            return
        if self.spread:
            raise refuse("has times of its own", "leave spread out", "ramp")
        for index, (point, before) in enumerate(zip(self.ramp[1:], self.ramp, strict=False), 1):
            if point[0] < before[0] or point[1] < before[1]:
                raise refuse("goes back", "times and numbers must not fall", f"ramp[{index}]")
        if self.ramp[-1][1] != self.total:
            raise refuse(
                f"ends at {self.ramp[-1][1]} connections, but the group has {self.total}",
                "make them the same",
                f"ramp[{len(self.ramp) - 1}]",
            )

    def _longest_offset(self) -> int:
        return self.spread if isinstance(self.ramp, str) else self.ramp[-1][0]

    def offset(self, number: int, random: float | None) -> int:
        """When a connection is opened, after the group's start.

        Args:
            number: Which of the group's connections, from 0.
            random: 0 to below 1, where `stagger` is random.

        Examples:
            >>> group = Bulk(name="b", sender="a", receiver="b", connections=4, spread="4 s")
            >>> [group.offset(number, None) // 10**12 for number in range(4)]
            [0, 1, 2, 3]
            >>> rising = group.model_copy(update={"ramp": "rising"})
            >>> [rising.offset(number, None) // 10**12 for number in range(4)]
            [0, 2, 2, 3]
        """
        total = self.total
        if not isinstance(self.ramp, str):
            return self._listed_offset(number if random is None else random * total)
        if self.ramp == "constant":
            if random is not None:
                return int(random * self.spread)
            return self.spread * number // total
        # The number opened by a time goes with its square.
        if random is not None:
            return int(random**0.5 * self.spread)
        return isqrt(self.spread**2 * number // total)

    def _listed_offset(self, opened: float) -> int:
        """The time at which the list has more than `opened` connections."""
        assert not isinstance(self.ramp, str), "the caller has looked"
        before, count = self.ramp[0][0], 0
        for time, by_then in self.ramp:
            if by_then > opened:
                return before + int((time - before) * ((opened - count) / (by_then - count)))
            before, count = time, by_then
        return before

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Each node that the group names, and its key below the group."""
        for key, (sender, receiver) in self.keyed_pairs():
            yield (f"{key}[0]" if key else "sender"), sender
            yield (f"{key}[1]" if key else "receiver"), receiver

    def pair(self, number: int, random: float) -> tuple[str, str]:
        """Sender and receiver of a connection; `random`, 0 to below 1, chooses where it may."""
        if self.pairs is not None:
            return self.pairs[number // self.connections]
        assert self.sender is not None and self.receiver is not None, "as the validator says"
        return self.sender, self.receiver

    def keyed_pairs(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Each pair of sender and receiver, and its key below the group (empty: the group's)."""
        if self.pairs is not None:
            for index, pair in enumerate(self.pairs):
                yield f"pairs[{index}]", pair
        elif self.sender is not None and self.receiver is not None:
            yield "", (self.sender, self.receiver)

    @property
    def total(self) -> int:
        """Connections of the whole group."""
        return self.connections * (1 if self.pairs is None else len(self.pairs))

    def uses_ecn(self, index: int) -> bool | None:
        """Whether connection `index` of the group negotiates ECN; None: its TCP settings decide.

        The share is spread as Bresenham draws a line: of the first n connections, the number
        with ECN is always the whole part of n times the share.

        Examples:
            >>> group = Bulk(name="b", sender="a", receiver="b", connections=4, ecn_share=0.5)
            >>> [group.uses_ecn(index) for index in range(4)]
            [False, True, False, True]
        """
        if self.ecn_share is None:
            return None
        # In whole connections, so that no rounding of the share adds up.
        share, total = round(self.ecn_share * self.total), self.total
        return (index + 1) * share // total > index * share // total


class Bulk(Group):
    """Data without end."""

    kind: Literal["bulk"] = "bulk"
    """Which kind of traffic this is."""


class Once(Group):
    """A number of bytes, then close."""

    kind: Literal["once"] = "once"
    """Which kind of traffic this is."""
    size: TransferSize
    """Bytes that each connection sends."""


class OnOff(Group):
    """Bursts, with idle times from the acknowledgement of one to the start of the next."""

    kind: Literal["on-off"] = "on-off"
    """Which kind of traffic this is."""
    burst: Sizes
    """Bytes of a burst: a size, a list that starts again at its end, or a distribution such as
    `{ distribution = "pareto", mean = "100 kB", shape = 1.5 }`."""
    idle_mean: Span | None = None
    """Mean of the exponentially distributed idle time; or `idle`."""
    idle: Pauses | None = None
    """The idle time: a duration, a list that starts again at its end, or a distribution such as
    `{ distribution = "pareto", mean = "2 s", shape = 1.5 }`."""
    bursts: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)] | None = None
    """Bursts after which a connection closes; without it, none does."""

    @model_validator(mode="after")
    def _has_one_idle_time(self) -> OnOff:
        if (self.idle is None) == (self.idle_mean is None):
            said = "is missing" if self.idle is None else "excludes idle_mean"
            raise refuse(said, 'idle_mean = "2 s" is exponential', "idle")
        return self

    @property
    def pauses(self) -> int | SpanDistribution | tuple[int, ...]:
        """The idle time in effect."""
        if self.idle is not None:
            return self.idle
        assert self.idle_mean is not None, "one of the two is there, as the validator says"
        return SpanDistribution(
            distribution="exponential", mean=span_text(self.idle_mean), shape=None
        )


class Ftp(Group):
    """Sessions in which a client fetches files from a server, one after the other.

    A session is one connection; `tcp.restart_after_idle = "fresh"` makes every file start as on a
    new one.
    """

    kind: Literal["ftp"] = "ftp"
    """Which kind of traffic this is."""
    servers: Names | None = None
    """With `clients`, instead of `sender` and `receiver` or `pairs`: each session's server, the
    sender, is one of these, drawn from the scenario's seed and the session's name."""
    clients: Names | None = None
    """The nodes that fetch; each has `connections` sessions."""
    file: Sizes
    """Bytes of a file: a size, a list that starts again at its end, or a distribution such as
    `{ distribution = "pareto", mean = "100 kB", shape = 1.5 }`."""
    pause: Pauses = 0
    """Time from the end of a file to the start of the next: a duration, a list, or a distribution
    such as `{ distribution = "exponential", mean = "1 s" }`."""
    files: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)] | None = None
    """Files of a session; without it, a session lasts to the end or to `stop`."""
    opener: Literal["sender", "receiver"] = "receiver"
    """The end that sends the SYN; the client opens an FTP session."""

    def _has_ends(self) -> None:
        if (self.servers is None) != (self.clients is None):
            missing = "servers" if self.servers is None else "clients"
            raise refuse("is missing", "servers and clients go together", missing)
        if self.servers is None or self.clients is None:
            super()._has_ends()
            return
        if self.pairs is not None or self.sender is not None or self.receiver is not None:
            raise refuse("excludes sender, receiver and pairs", "give one or the other", "clients")
        if len(self.servers) * len(self.clients) > MOST_CHOICES:
            raise refuse(
                f"makes more than {MOST_CHOICES} pairs with servers", "name fewer", "clients"
            )
        common = set(self.servers) & set(self.clients)
        if common:
            raise refuse(f'holds the client "{min(common)}"', "name other nodes", "servers")

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Each node that the group names, and its key below the group."""
        if self.servers is None or self.clients is None:
            yield from super().keyed_nodes()
            return
        yield from ((f"servers[{index}]", name) for index, name in enumerate(self.servers))
        yield from ((f"clients[{index}]", name) for index, name in enumerate(self.clients))

    def keyed_pairs(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Each pair of sender and receiver that there may be, and its key below the group."""
        if self.servers is None or self.clients is None:
            yield from super().keyed_pairs()
            return
        for index, client in enumerate(self.clients):
            yield from ((f"clients[{index}]", (server, client)) for server in self.servers)

    def pair(self, number: int, random: float) -> tuple[str, str]:
        """Sender and receiver of a connection; `random`, 0 to below 1, chooses the server."""
        if self.servers is None or self.clients is None:
            return super().pair(number, random)
        server = self.servers[int(random * len(self.servers))]
        return server, self.clients[number // self.connections]

    @property
    def total(self) -> int:
        """Connections of the whole group."""
        return self.connections * len(self.clients) if self.clients else super().total


MOST_CHOICES = 100_000

Traffic = Annotated[Bulk | Once | OnOff | Ftp, Field(discriminator="kind")]
"""Any group of TCP connections."""
