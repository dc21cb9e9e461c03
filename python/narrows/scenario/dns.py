"""Resolver workers in a closed loop, and the server that they ask."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from narrows.scenario.base import Table
from narrows.scenario.quantities import DnsSize, Name, Path, PositiveSpan, Span
from narrows.scenario.retry import SCHEDULES

__all__ = ["Dns"]

_S = 10**12


class Dns(Table):
    """A group of resolver workers: each asks, waits, retries, and then asks the next."""

    name: Name
    """Unique among traffic and DNS groups."""
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
