"""Resolver workers in a closed loop, and the server that they ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from narrows.scenario.quantities import DnsSize, Name, Path, PositiveSpan, Span, refuse
from narrows.scenario.retry import SCHEDULES
from narrows.scenario.traffic.base import Amount, Countable, Group, Leg

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner

__all__ = ["Dns"]

WORKERS = Countable("resolver worker", "resolver workers", 100_000)
QUERIES = Countable("query", "queries", 50_000_000, can_be="recorded")

_S = 10**12


class Dns(Group):
    """A group of resolver workers: each asks, waits, retries, and then asks the next."""

    countables: ClassVar[tuple[Countable, ...]] = (WORKERS, QUERIES)

    client: Name
    """Where the workers are: a node."""
    server: Name
    """Where the DNS server is: a node."""
    route: Path | None = None
    """Nodes that queries pass, neighbours in order, instead of the shortest path. It may leave out
    the client, the server and what lies next to them: the shortest path leads there."""
    route_back: Path | None = None
    """The same for replies."""
    workers: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    """Number of workers."""
    warm_up: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0
    """Queries before measurement starts, for each worker."""
    queries: Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
    """Measured queries, for each worker."""
    retry: (
        Literal["windows", "windows-7", "windows-10", "glibc", "dig", "systemd-resolved"]
        | Annotated[tuple[PositiveSpan, ...], Field(min_length=1, max_length=64)]
    ) = "windows"
    """Time-outs of successive attempts: the name of a schedule, or a list of durations such as
    `["1 s", "3 s"]`."""
    start: Span = 0
    """When the first worker may start."""
    spread: Span = 0
    """Workers start at random times within this span after `start`."""
    think_mean: Span = 0
    """Mean of the exponentially distributed pause between the end of a query and the next."""
    service: Span = 0
    """Constant part of the time from a query's arrival at the server to its reply."""
    service_jitter_mean: Span = 0
    """Mean of an exponentially distributed part, added to `service`."""
    query_size: DnsSize = 70
    """IP packet length of queries, 40 B to 1500 B."""
    reply_size: DnsSize = 100
    """IP packet length of replies, 40 B to 1500 B."""

    @model_validator(mode="after")
    def _has_two_ends(self) -> Dns:
        if self.client == self.server:
            raise refuse("is the client too", "name two nodes", "server")
        return self

    @property
    def timeouts(self) -> list[int]:
        """Time-outs of successive attempts, in picoseconds.

        Examples:
            >>> dns = Dns(name="d", client="c", server="s", queries=1, retry="glibc")
            >>> dns.timeouts
            [5000000000000, 5000000000000]
        """
        if isinstance(self.retry, str):
            return [seconds * _S for seconds in SCHEDULES[self.retry].timeouts_s]
        return list(self.retry)

    @property
    def asked(self) -> int:
        """Queries of all workers, those to warm up among them."""
        return self.workers * (self.warm_up + self.queries)

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Each key below the group that names a node, and the node."""
        for key, route in (("route", self.route), ("route_back", self.route_back)):
            yield from ((f"{key}[{index}]", name) for index, name in enumerate(route or ()))
        yield "client", self.client
        yield "server", self.server

    def legs(self) -> Iterator[Leg]:
        """The way of the queries, and that of the replies."""
        yield Leg(self.client, self.server, self.route, "route", "server")
        yield Leg(self.server, self.client, self.route_back, "route_back", "server")

    def amounts(self) -> Iterator[Amount]:
        """Its workers, and what they ask."""
        yield Amount(self.workers, WORKERS, "workers")
        yield Amount(self.asked, QUERIES, "queries", "warm_up or workers")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """Two applications: the workers, and behind them the server that they ask."""
        client = self.application(
            "dns-client",
            server=planner.position + 1,
            there=planner.path(self.client, self.server, self.route),
            back=planner.path(self.server, self.client, self.route_back),
            workers=self.workers,
            start=self.start,
            spread=self.spread,
            warm_up=self.warm_up,
            queries=self.queries,
            think_mean=self.think_mean,
            timeouts=self.timeouts,
            query_bytes=self.query_size,
            reply_bytes=self.reply_size,
        )
        server = self.application(
            "dns-server", service=self.service, service_jitter_mean=self.service_jitter_mean
        )
        return [client, server]
