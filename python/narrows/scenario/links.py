"""Links and what they are made of: framing, ring buffer, jitter, queue."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from narrows.scenario.amounts import DataSize
from narrows.scenario.base import Table
from narrows.scenario.listings import FileName, opportunities
from narrows.scenario.quantities import (
    Name,
    PositiveBytes,
    Probability,
    Rate,
    Size,
    Span,
    at_least,
    at_most,
    refuse,
)
from narrows.scenario.queues import DISCIPLINES, Discipline, Queue
from narrows.scenario.rules import Faults, Unknown, rule, until_unknown

__all__ = ["Direction", "Edge", "Framing", "Jitter", "Link", "Middlebox", "Ring", "Way"]

Overhead = Annotated[Size, at_most(1000, "1000 B")]
Packets = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]


class Framing(Table):
    """What the link layer adds to IP packets; `"ethernet"` sets 38 B, 84 B, 14 B in this order."""

    overhead: Overhead = DataSize("0 B")
    """Added to an IP packet's length on the wire (Ethernet: 14 of header, 4 of checksum, 20 of
    preamble and gap)."""
    min: Annotated[Size, at_most(65_535, "65535 B")] = DataSize("0 B")
    """Shortest frame on the wire, `overhead` included (Ethernet: 84)."""
    queue_overhead: Overhead = DataSize("0 B")
    """Added to an IP packet's length where queues count bytes (Linux counts Ethernet's 14)."""


ETHERNET_MTU = 1500

# Made once, because a network may have tens of thousands of links.
_NO_FRAMING = Framing()
_DEFAULT_QUEUE = DISCIPLINES["pfifo"].model_validate({"limit": 1000})
ETHERNET = Framing(overhead="38 B", min="84 B", queue_overhead="14 B")


def _named_framing(value: Any) -> Any:
    if isinstance(value, str):
        if value != "ethernet":
            raise refuse("is not a known framing", 'use "ethernet" or a table')
        return ETHERNET
    return value


class Ring(Table):
    """A network card's ring buffer. Packets in it have left the queue, so no AQM sees them."""

    packets: Packets | None = None
    """Packets that it holds, including the one in transmission."""
    wake: Packets | None = None
    """Packets left at which a full ring takes more, so that it refills in bursts. By default, the
    end of each transmission makes room. (e1000 with 80 descriptors: `packets = 60, wake = 47`.)"""
    bytes: PositiveBytes | None = None
    """Bytes that it holds, including `framing`; every transmitted byte makes room."""

    @rule
    def _is_one(self) -> Faults:
        if (self.packets is None) == (self.bytes is None):
            yield refuse("needs either packets or bytes", "such as { packets = 80 }")
        elif self.wake is not None and self.packets is None:
            yield refuse("is for a ring of packets", "leave it out, or give packets", "wake")
        elif self.wake is not None and self.packets is not None and self.wake >= self.packets:
            yield refuse("must be below packets", "such as { packets = 60, wake = 47 }", "wake")


class Jitter(Table):
    """Delay variation as netem computes it: tc-netem(8)."""

    deviation: Annotated[Span, at_most(2_147 * 10**9, "2147 ms")]
    """Half the width of the uniform distribution, or the standard deviation of the normal one; at
    most 2147 ms, as in netem."""
    correlation: Probability = 0.0
    """Correlation of successive values, 0 to 1 (netem's 25 % is 0.25)."""
    distribution: Literal["uniform", "normal"] = "uniform"
    """The distribution's shape."""
    reorder: bool = Field(default=True, strict=True)
    """Whether a packet may overtake another, as in netem."""


class Middlebox(Table):
    """A middlebox at the head of a link, before the queue, and what it drops."""

    drop_dns_above: Annotated[PositiveBytes, at_most(65_507, "65507 B")] | None = None
    """Drops DNS datagrams with a longer message. Old firewalls have 512 B."""
    drop_fragments: bool = Field(default=False, strict=True)
    """Drops every IP fragment."""
    drop_too_big: bool = Field(default=False, strict=True)
    """Drops the ICMP messages with which routers report that a packet was too big. Senders that
    rely on them stall."""
    block_tcp_53: Literal["drop", "reject"] | None = None
    """Blocks TCP to port 53: drops it silently, or answers with a reset."""
    drop_syn_data: bool = Field(default=False, strict=True)
    """Drops SYNs that carry data, as TCP Fast Open's do."""

    @rule
    def _does_something(self) -> Faults:
        if self == Middlebox.model_construct():
            yield refuse("lets everything pass", "such as { drop_fragments = true }")


class Way(Table):
    """One direction of a link."""

    rate: Rate | None = None
    """Transmission rate; each direction must have one, or `rate_trace`."""
    rate_trace: FileName | None = None
    """Instead of `rate`, a file in Mahimahi's format: each line is a millisecond at which 1500
    bytes may leave, and after the last line the list begins again. A relative name starts from the
    folder of the scenario's file. At most 5,000,000 lines and 64 MiB. Whatever depends on the rate,
    such as RED's `bandwidth` and the link's utilisation, uses the list's mean rate."""
    delay: Span | None = None
    """Propagation delay; none by default."""
    framing: Annotated[Framing, BeforeValidator(_named_framing)] | None = None
    """What the link layer adds to IP packets: a table, or `"ethernet"`; nothing by default."""
    queue: Queue | None = None
    """The queue discipline at the link's head; by default a pfifo of 1000 packets, as in Linux."""
    ring: Ring | None = None
    """The network card's ring buffer below the queue; by default the card takes one packet at a
    time."""
    jitter: Jitter | None = None
    """Delay variation after transmission; none by default."""
    loss: Probability | None = None
    """Probability that a packet is lost on the wire; 0 by default."""
    mtu: Annotated[PositiveBytes, at_least(576, "576 B"), at_most(65_535, "65535 B")] | None = None
    """The longest IP packet that the link takes, 576 B to 65535 B; 1500 B by default. Hosts send
    longer datagrams in fragments. TCP uses the MTU of its host's own link, and what routers
    report."""
    middlebox: Middlebox | None = None
    """A middlebox at the link's head that drops some packets; none by default."""
    dns_exempt: Annotated[bool, Field(strict=True)] | None = None
    """Exempts DNS packets from `delay`, `jitter` and `loss`; false by default."""


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
    rate: int
    delay: int
    framing: Framing
    queue: Discipline
    ring: Ring | None
    jitter: Jitter | None
    loss: float
    dns_exempt: bool
    mtu: int
    middlebox: Middlebox | None
    opportunities: tuple[int, ...] | None


class Link(Way):
    """A two-way link. Keys of a direction that are given here apply to both directions."""

    name: Name
    """Unique; the directions are called `NAME.forward` and `NAME.backward`."""
    between: tuple[Name, Name]
    """The two nodes; `forward` leads from the first to the second."""
    forward: Way | None = None
    """Keys for the direction from the first node to the second; each replaces the link's own."""
    backward: Way | None = None
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
        for way in ("forward", "backward"):
            for found in (self._of_rate, self._of_ring, self._of_jitter, self._of_queue):
                yield from until_unknown(found(way))

    def _of_rate(self, way: str) -> Faults:
        listed = self._listed(way)
        if listed is not None:
            try:
                opportunities(*listed)
            except PydanticCustomError as fault:
                yield fault
        elif self._key(way, "rate") is None:
            yield refuse(
                f"is missing for the {way} direction", 'such as rate = "10 Mbit/s"', "rate"
            )

    def _of_ring(self, way: str) -> Faults:
        if self._listed(way) is not None and self._key(way, "ring") is not None:
            yield refuse(
                f"is not possible in the {way} direction, which follows rate_trace",
                "leave one of the two out",
                self._place(way, "ring"),
            )

    def _of_jitter(self, way: str) -> Faults:
        jitter = self._key(way, "jitter")
        if jitter is not None and jitter.deviation > (self._key(way, "delay") or 0):
            yield refuse(
                f"is above the delay of the {way} direction, which cannot become negative",
                "lower the deviation or raise delay",
                f"{self._place(way, 'jitter')}.deviation",
            )

    def _of_queue(self, way: str) -> Faults:
        queue, rate = self._key(way, "queue"), self._rate(way)
        wrong = None if queue is None or rate is None else queue.wrong_at(rate)
        if wrong is not None:
            key, what, hint = wrong
            yield refuse(what, hint, f"{self._place(way, 'queue')}.{key}")

    def _key(self, way: str, key: str) -> Any:
        own = getattr(self, way)
        value = None if own is None else getattr(own, key)
        return getattr(self, key) if value is None else value

    def _place(self, way: str, key: str) -> str:
        """Where the file gives a direction's key."""
        own = getattr(self, way)
        return key if own is None or getattr(own, key) is None else f"{way}.{key}"

    def _listed(self, way: str) -> tuple[str, str] | None:
        """The file of the trace, and its key; a direction's own keys come first."""
        own = getattr(self, way)
        for given, at in ((own, f"{way}."), (self, "")):
            if given is not None and given.rate_trace is not None:
                return given.rate_trace, f"{at}rate_trace"
            if given is not None and given.rate is not None:
                return None
        return None

    def _trace(self, way: str) -> tuple[int, ...] | None:
        """The milliseconds of the trace, if there is one."""
        listed = self._listed(way)
        try:
            return None if listed is None else opportunities(*listed)
        except PydanticCustomError:
            raise Unknown("rate_trace") from None

    def _rate(self, way: str) -> int | None:
        """The rate, or the mean rate of the trace that replaces it."""
        trace = self._trace(way)
        if trace is None:
            rate: int | None = self._key(way, "rate")
            return rate
        return max(1, len(trace) * 1500 * 8 * 1000 // trace[-1])

    def edge(self, way: Literal["forward", "backward"]) -> Edge:
        """One direction as routing sees it."""
        source, target = self.between if way == "forward" else self.between[::-1]
        try:
            delay = self._key(way, "delay") or 0
        except Unknown:
            # Whether there is a path does not depend on it.
            delay = 0
        return Edge(f"{self.name}.{way}", source, target, delay)

    def direction(self, way: Literal["forward", "backward"]) -> Direction:
        """One direction with every default filled in.

        Examples:
            >>> link = Link(name="wan", between=("a", "b"), rate="2 Mbit/s", delay="5 ms")
            >>> way = link.direction("backward")
            >>> way.name, way.source, way.rate, way.queue.limit
            ('wan.backward', 'b', '2 Mbit/s', 1000)
        """
        source, target = self.between if way == "forward" else self.between[::-1]
        queue = self._key(way, "queue")
        return Direction(
            name=f"{self.name}.{way}",
            source=source,
            target=target,
            rate=self._rate(way) or 0,
            delay=self._key(way, "delay") or 0,
            framing=self._key(way, "framing") or _NO_FRAMING,
            queue=_DEFAULT_QUEUE if queue is None else queue,
            ring=self._key(way, "ring"),
            jitter=self._key(way, "jitter"),
            loss=self._key(way, "loss") or 0.0,
            dns_exempt=bool(self._key(way, "dns_exempt")),
            mtu=self._key(way, "mtu") or ETHERNET_MTU,
            middlebox=self._key(way, "middlebox"),
            opportunities=self._trace(way),
        )
