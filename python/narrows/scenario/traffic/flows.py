"""Flows between pairs of nodes: their ends, their paths, and when each begins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from math import isqrt
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from narrows.scenario.amounts import Duration
from narrows.scenario.quantities import Name, Path, PositiveSpan, Span, refuse
from narrows.scenario.rules import Faults, rule
from narrows.scenario.traffic.base import Group, Leg

RampPoint = tuple[Span, Annotated[int, Field(strict=True, ge=0, le=100_000)]]
Ramp = Annotated[tuple[RampPoint, ...], Field(min_length=1, max_length=10_000, fail_fast=True)]


class Flows(Group):
    """A group of flows, each from a sender to a receiver."""

    copied: ClassVar[tuple[str, ...]] = ("pairs",)

    sender: Name | None = None
    """The node that sends the data. Give this and `receiver`, or `pairs`."""
    receiver: Name | None = None
    """The node that receives the data."""
    pairs: Annotated[tuple[tuple[Name, Name], ...], Field(fail_fast=True)] | None = None
    """Pairs of sender and receiver, `[["a", "b"], ...]`."""
    route: Path | None = None
    """The nodes that the data pass, each a neighbour of the one before, instead of the shortest
    path. You may leave out nodes at either end: the shortest path leads there."""
    route_back: Path | None = None
    """The same from receiver to sender."""
    spread: Span = Duration("0 s")
    """The flows begin within this time after `start`."""
    ramp: Literal["constant", "rising"] | Ramp = "constant"
    """How fast flows begin: at a constant rate; at a rate that rises from zero in proportion to
    time; or by a list of times after `start`, each with the number of flows that have begun by
    then, `[["0 s", 5], ["60 s", 20]]`. Between two entries, the rate is constant."""
    stagger: Literal["even", "random"] = "even"
    """Whether flows begin at even intervals for that rate, or at random times drawn from the
    scenario's seed and the flow's name."""
    stop: PositiveSpan | None = None
    """From then on, nothing new is sent."""

    @property
    @abstractmethod
    def each(self) -> int:
        """Flows for each pair."""

    @rule
    def _has_ends(self) -> Faults:
        single = self.sender is not None or self.receiver is not None
        if single and self.pairs is not None:
            yield refuse("excludes sender and receiver", "give one or the other", "pairs")
        if self.pairs is None and (self.sender is None or self.receiver is None):
            yield refuse("needs sender and receiver, or pairs", 'such as pairs = [["a", "b"]]')
        if self.pairs == ():
            yield refuse("is empty", 'such as [["a", "b"]]', "pairs")

    @rule
    def _has_two_ends(self) -> Faults:
        for key, (sender, receiver) in self.keyed_pairs():
            if sender == receiver:
                yield refuse("joins a node with itself", "name two nodes", key or "receiver")

    @rule
    def _starts_are_possible(self) -> Faults:
        in_ramp = list(self._of_the_ramp())
        yield from in_ramp
        last = self.start + self._longest_offset()
        # If the ramp is wrong, the last start is unknown.
        if not in_ramp and self.stop is not None and self.stop <= last:
            yield refuse(
                f'"{self.stop}" is not after the last start ("{Duration(last)}")',
                "stop later, or start earlier",
                "stop",
            )

    def _of_the_ramp(self) -> Faults:
        if self.ramp == "rising" and not self.spread:
            yield refuse("needs a time over which it rises", 'such as spread = "60 s"', "ramp")
        if isinstance(self.ramp, str):
            return
        if self.spread:
            yield refuse("already has times", "leave spread out", "ramp")
        for index, (point, before) in enumerate(zip(self.ramp[1:], self.ramp, strict=False), 1):
            if point[0] < before[0] or point[1] < before[1]:
                yield refuse("goes back", "times and numbers must not fall", f"ramp[{index}]")
        # Without ends, the number of the group's flows is unknown.
        if self.ramp[-1][1] != self.total and not any(self._has_ends()):
            flows = self.countables[0].many
            yield refuse(
                f"ends at {self.ramp[-1][1]} {flows}, but the group has {self.total}",
                "make them the same",
                f"ramp[{len(self.ramp) - 1}]",
            )

    def _longest_offset(self) -> int:
        return self.spread if isinstance(self.ramp, str) else self.ramp[-1][0]

    def beginnings(self) -> tuple[int, int]:
        """When the first and the last flow begin; at random, the last one possible."""
        first = self.start if isinstance(self.ramp, str) else self.start + self.ramp[0][0]
        if self.stagger == "random":
            return first, self.start + self._longest_offset()
        return first, self.start + self.offset(self.total - 1, None)

    def offset(self, number: int, random: float | None) -> int:
        """When a flow begins, after the group's start.

        Args:
            number: Which of the group's flows, from 0.
            random: A number from 0 to below 1, if `stagger` is random.

        Examples:
            >>> from narrows.scenario import Bulk
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
        # The number of flows begun by a time is proportional to its square.
        if random is not None:
            return int(random**0.5 * self.spread)
        return isqrt(self.spread**2 * number // total)

    def _listed_offset(self, opened: float) -> int:
        """The time at which the list has more than `opened` flows."""
        assert not isinstance(self.ramp, str), "the caller made sure that there is one"
        before, count = self.ramp[0][0], 0
        for time, by_then in self.ramp:
            if by_then > opened:
                return before + int((time - before) * ((opened - count) / (by_then - count)))
            before, count = time, by_then
        return before

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Each key below the group that names a node, and the node."""
        yield from self._keyed_ends()
        for key, route in (("route", self.route), ("route_back", self.route_back)):
            yield from ((f"{key}[{index}]", name) for index, name in enumerate(route or ()))

    def _keyed_ends(self) -> Iterator[tuple[str, str]]:
        for key, (sender, receiver) in self.keyed_pairs():
            yield (f"{key}[0]" if key else "sender"), sender
            yield (f"{key}[1]" if key else "receiver"), receiver

    def keyed_pairs(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Each pair of sender and receiver, and its key below the group (empty: the group's)."""
        if self.pairs is not None:
            for index, pair in enumerate(self.pairs):
                yield f"pairs[{index}]", pair
        elif self.sender is not None and self.receiver is not None:
            yield "", (self.sender, self.receiver)

    def legs(self) -> Iterator[Leg]:
        """The paths of all pairs, there and back."""
        for key, (sender, receiver) in self.keyed_pairs():
            blamed = key or "receiver"
            yield Leg(sender, receiver, self.route, "route", blamed)
            yield Leg(receiver, sender, self.route_back, "route_back", blamed)

    def pair(self, number: int, chance: Callable[[str], float]) -> tuple[str, str]:
        """Sender and receiver of a flow.

        Args:
            number: Which of the group's flows, from 0.
            chance: Draws a number from 0 to below 1 for a purpose, if chance decides.
        """
        if self.pairs is not None:
            return self.pairs[number // self.each]
        assert self.sender is not None and self.receiver is not None, "the validator requires them"
        return self.sender, self.receiver

    @property
    def total(self) -> int:
        """Flows of the whole group."""
        return self.each * (1 if self.pairs is None else len(self.pairs))
