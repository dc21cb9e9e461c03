"""TCP traffic: groups of connections and what their applications send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from narrows.scenario.base import Table
from narrows.scenario.quantities import Name, Probability, Span, TransferSize, refuse
from narrows.scenario.tcp import Tcp

__all__ = ["Bulk", "Group", "OnOff", "Once", "Traffic"]


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
    start: Span = 0
    """When the first connection is opened."""
    spread: Span = 0
    """Connections are opened within this span after `start`."""
    stagger: Literal["even", "random"] = "even"
    """How: at even distances, or at random times drawn from the scenario's seed and the
    connection's name."""

    @model_validator(mode="after")
    def _is_possible(self) -> Group:
        single = self.sender is not None or self.receiver is not None
        if single and self.pairs is not None:
            raise refuse("excludes sender and receiver", "give one or the other", "pairs")
        if self.pairs is None and (self.sender is None or self.receiver is None):
            raise refuse("needs sender and receiver, or pairs", 'such as pairs = [["a", "b"]]')
        if self.pairs == ():
            raise refuse("is empty", 'such as [["a", "b"]]', "pairs")
        if self.ecn_share is not None and self.tcp.ecn is not None:
            raise refuse("excludes tcp.ecn", "give one or the other", "ecn_share")
        for key, (sender, receiver) in self.keyed_pairs():
            if sender == receiver:
                raise refuse("joins a node with itself", "name two nodes", key or "receiver")
        return self

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
    burst: TransferSize
    """Bytes of a burst."""
    idle_mean: Span
    """Mean of the exponentially distributed idle time."""


Traffic = Annotated[Bulk | Once | OnOff, Field(discriminator="kind")]
"""Any group of TCP connections."""
