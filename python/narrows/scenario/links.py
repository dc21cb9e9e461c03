"""Links and what they are made of: framing, ring buffer, jitter, queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from narrows.scenario.base import Table
from narrows.scenario.declared import TABLES, CheckedTable, DeclaredTable
from narrows.scenario.listings import FileName, RateTrace, rate_trace
from narrows.scenario.quantities import Name, refuse
from narrows.scenario.queues import Queue
from narrows.scenario.queues.declared import default
from narrows.scenario.rules import Faults, Unknown, rule, until_unknown


# D101: these classes take their docstrings from the declarations.
class Framing(DeclaredTable, declares="Framing"):  # noqa: D101
    pass


ETHERNET = Framing(overhead="38 B", min="84 B", queue_overhead="14 B")


def _named_framing(value: Any) -> Any:
    if isinstance(value, str):
        if value != "ethernet":
            raise refuse("is not a known framing", 'use "ethernet" or a table')
        return ETHERNET
    return value


class Ring(CheckedTable, declares="Ring"):  # noqa: D101
    pass


class Jitter(DeclaredTable, declares="Jitter"):  # noqa: D101
    pass


class GilbertElliott(DeclaredTable, declares="GilbertElliott"):  # noqa: D101
    kind: Literal["gilbert-elliott"]
    """Its kind."""

    def plain(self) -> dict[str, Any]:
        """As a plan has it."""
        return {self.kind: super().plain()}


_Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]

Loss = Annotated[
    Annotated[_Share, Tag("each")] | Annotated[GilbertElliott, Tag("bursts")],
    Discriminator(lambda value: "bursts" if isinstance(value, dict | Table) else "each"),
]
"""The share of packets that are lost, or a table. Errors are about the form that a value has."""


class Middlebox(CheckedTable, declares="Middlebox"):  # noqa: D101
    pass


class DirectionKeys(
    DeclaredTable,
    declares="Link",
    without=("name", "from", "to", "opportunities_ms"),
    open=True,
):
    """One direction of a link."""

    rate_trace: FileName | None = None
    """Instead of `rate`, a file in Mahimahi's format: each line is a millisecond at which 1500
    bytes may leave, and after the last line the list begins again. If its name ends in `.csv`, it
    is a table of rates: each line has a time in seconds, from 0 on, and a rate in bit/s that holds
    until the next line, the last one to the end; 0 takes the link down. A relative name starts from
    the folder of the scenario's file. At most 5,000,000 lines (a table: 100,000) and 64 MiB.
    Whatever depends on the rate, such as RED's `bandwidth` and the link's utilisation, uses the
    mean rate."""
    framing: Annotated[Framing, BeforeValidator(_named_framing)] | None = None
    """What the link layer adds to IP packets: a table, or `"ethernet"`; nothing by default."""
    loss: Loss | None = None
    """Losses on the wire: the probability that a packet is lost, or a table for losses in bursts; 0
    by default."""
    queue: Queue | None = None
    """The queue discipline at the link's head; by default a pfifo of 1000 packets, as in Linux."""


# Made once, because a network may have tens of thousands of links.
_USUAL = {key["name"]: default(key) for key in TABLES["Link"]["keys"]}


class Edge(NamedTuple):
    """One direction of a link as routing sees it; the delay is in picoseconds."""

    name: str
    source: str
    target: str
    delay: int


class Direction(NamedTuple):
    """One direction of a link with every default filled in; quantities in base units."""

    name: str
    source: str
    target: str
    trace: RateTrace | None
    keys: dict[str, Any]
    """The keys of `DirectionKeys` that the extension declares. They are attributes too."""

    def __getattr__(self, key: str) -> Any:
        if key in self.keys:
            return self.keys[key]
        raise AttributeError(key)


class Link(DirectionKeys):
    """A two-way link. Keys of a direction that are given here apply to both directions."""

    name: Name
    """Unique; the directions are called `NAME.forward` and `NAME.backward`."""
    between: tuple[Name, Name]
    """The two nodes; `forward` leads from the first to the second."""
    forward: DirectionKeys | None = None
    """Keys for the direction from the first node to the second; each replaces the link's own."""
    backward: DirectionKeys | None = None
    """Keys for the direction from the second node to the first; each replaces the link's own."""
    neighbours: Literal["known", "arp"] = "known"
    """Whether its two nodes know each other's link-layer addresses, or learn them by ARP (RFC 826),
    with Linux's neighbour states. With `"arp"`, both must be routers. ARP packets then pass the
    link's queues, and other packets wait or are lost while an address is unknown."""

    @rule
    def _has_two_ends(self) -> Faults:
        if self.between[0] == self.between[1]:
            yield refuse("joins a node with itself", "name two nodes", "between")

    @rule
    def _has_rate_or_trace(self) -> Faults:
        for at, given in (("", self), ("forward.", self.forward), ("backward.", self.backward)):
            if given is not None and given.rate_trace is not None and given.rate is not None:
                yield refuse("excludes rate", "give one or the other", f"{at}rate_trace")

    @rule
    def _directions_are_possible(self) -> Faults:
        for direction in ("forward", "backward"):
            for found in (self._of_rate, self._of_ring, self._of_jitter, self._of_queue):
                yield from until_unknown(found(direction))

    def _of_rate(self, direction: str) -> Faults:
        listed = self._listed(direction)
        if listed is not None:
            try:
                rate_trace(*listed)
            except PydanticCustomError as fault:
                yield fault
        elif self._key(direction, "rate") is None:
            yield refuse(
                f"is missing for the {direction} direction", 'such as rate = "10 Mbit/s"', "rate"
            )

    def _of_ring(self, direction: str) -> Faults:
        if self._listed(direction) is not None and self._key(direction, "ring") is not None:
            yield refuse(
                f"is not possible in the {direction} direction, which follows rate_trace",
                "leave one of the two out",
                self._place(direction, "ring"),
            )

    def _of_jitter(self, direction: str) -> Faults:
        jitter = self._key(direction, "jitter")
        if jitter is not None and jitter.deviation > (self._key(direction, "delay") or 0):
            yield refuse(
                f"is above the delay of the {direction} direction, which cannot become negative",
                "lower the deviation or raise delay",
                f"{self._place(direction, 'jitter')}.deviation",
            )

    def _of_queue(self, direction: str) -> Faults:
        queue, rate = self._key(direction, "queue"), self._rate(direction)
        wrong = None if queue is None or rate is None else queue.wrong_at(rate)
        if wrong is not None:
            key, what, hint = wrong
            yield refuse(what, hint, f"{self._place(direction, 'queue')}.{key}")

    def _key(self, direction: str, key: str) -> Any:
        own = getattr(self, direction)
        value = None if own is None else getattr(own, key)
        return getattr(self, key) if value is None else value

    def _place(self, direction: str, key: str) -> str:
        """Where the file gives a direction's key."""
        own = getattr(self, direction)
        return key if own is None or getattr(own, key) is None else f"{direction}.{key}"

    def _listed(self, direction: str) -> tuple[str, str] | None:
        """The file of the trace, and its key; a direction's own keys come first."""
        own = getattr(self, direction)
        for given, at in ((own, f"{direction}."), (self, "")):
            if given is not None and given.rate_trace is not None:
                return given.rate_trace, f"{at}rate_trace"
            if given is not None and given.rate is not None:
                return None
        return None

    def _trace(self, direction: str) -> RateTrace | None:
        """The trace, if there is one."""
        listed = self._listed(direction)
        try:
            return None if listed is None else rate_trace(*listed)
        except PydanticCustomError:
            raise Unknown("rate_trace") from None

    def tables_of_rates(self) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """Directions that follow a table of rates (0 for forward, 1 for backward), and it."""
        for number, direction in enumerate(("forward", "backward")):
            trace = self._trace(direction)
            if trace is not None and trace.rates is not None:
                yield number, trace.rates

    def _rate(self, direction: str) -> int | None:
        """The rate, or the mean rate of the trace that replaces it."""
        trace = self._trace(direction)
        if trace is None:
            rate: int | None = self._key(direction, "rate")
            return rate
        return trace.mean

    def edge(self, direction: Literal["forward", "backward"]) -> Edge:
        """One direction as routing sees it."""
        source, target = self.between if direction == "forward" else self.between[::-1]
        try:
            delay = self._key(direction, "delay") or 0
        except Unknown:
            # Whether there is a path does not depend on it.
            delay = 0
        return Edge(f"{self.name}.{direction}", source, target, delay)

    def direction(self, direction: Literal["forward", "backward"]) -> Direction:
        """One direction with every default filled in.

        Examples:
            >>> link = Link(name="wan", between=("a", "b"), rate="2 Mbit/s", delay="5 ms")
            >>> back = link.direction("backward")
            >>> back.name, back.source, back.rate, back.queue.limit
            ('wan.backward', 'b', '2 Mbit/s', 1000)
        """
        source, target = self.between if direction == "forward" else self.between[::-1]
        given = {key: self._key(direction, key) for key in DirectionKeys.declared}
        keys = {key: _USUAL[key] if value is None else value for key, value in given.items()}
        keys["rate"] = self._rate(direction) or 0
        return Direction(f"{self.name}.{direction}", source, target, self._trace(direction), keys)
