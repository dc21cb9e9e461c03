"""What happened to the connections that a probe kept from round to round.

A server may close an idle connection, and sooner if it has many (RFC 7766, section 6.2.3). The
client then has to connect again, and the query takes one more round trip.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Persistent:
    """The persistent connections to one server over one transport."""

    target: str
    transport: str
    connections: int
    """All connections on which a query was answered."""
    closed: int
    """Connections that the server closed while they were idle."""
    again: int
    """Queries that went over a new connection for that reason."""
    queries: int
    """All queries."""
    idle_s: tuple[float, float, float] | None
    """How long closed connections were idle: shortest, median, longest; None if none was closed."""
    exact: bool
    """Whether the idle times end with the FIN. Otherwise they end when the probe noticed it."""

    @property
    def sentence(self) -> str:
        """What happened to the connections, in words."""
        if self.idle_s is None:
            return f"the server closed none of {self.connections} persistent connections"
        low, middle, high = (f"{seconds:.2g} s" for seconds in self.idle_s)
        when = low if low == high else f"{low} to {high}, median {middle}"
        at_most = "" if self.exact else "at most "
        return (
            f"the server closed {self.closed} of {self.connections} persistent connections after "
            f"they were idle for {at_most}{when}; {self.again} of {self.queries} queries had to "
            "connect again"
        )

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **asdict(self),
            "idle_s": None if self.idle_s is None else list(self.idle_s),
            "sentence": self.sentence,
        }


def persistent_connections(
    exchanges: pl.DataFrame, connections: pl.DataFrame, *, exact: bool
) -> list[Persistent]:
    """What happened to persistent connections, by server and transport.

    Args:
        exchanges: The table `exchanges` of a probe that kept connections.
        connections: The table `connections` of the same probe.
        exact: Whether the probe saw the segments that closed connections.
    """
    over = exchanges.filter(pl.col("connection").is_not_null())
    last = (
        over.filter(outcome="answered")
        .group_by("connection")
        .agg(answered_s=(pl.col("started_s") + pl.col("total_ms") / 1e3).max())
    )
    # A query that fails also ends its connection, whoever closed it.
    failed = over.filter(pl.col("outcome") != "answered").select("connection")
    found = []
    rows = connections.join(last, on="connection", how="inner", maintain_order="left")
    for (target, transport), part in rows.group_by("target", "transport", maintain_order=True):
        closed = part.filter(closed_by="server").join(failed, on="connection", how="anti")
        idle = (closed["ended_s"] - closed["answered_s"]).drop_nulls().clip(0.0).to_list()
        asked = over.filter(target=target, transport=transport)
        found.append(
            Persistent(
                target=str(target),
                transport=str(transport),
                connections=part.height,
                closed=closed.height,
                again=_opened_again(asked, closed),
                queries=asked.height,
                idle_s=_range(idle),
                exact=exact and transport != "quic",
            )
        )
    return found


def _opened_again(asked: pl.DataFrame, closed: pl.DataFrame) -> int:
    """How many queries went over a new connection after the previous one was closed."""
    ended = set(closed["connection"])
    count = 0
    for _, rows in asked.sort("started_s").group_by("vantage", maintain_order=True):
        numbers = rows["connection"].to_list()
        count += sum(1 for old, new in pairwise(numbers) if old != new and old in ended)
    return count


def _range(idle: list[float]) -> tuple[float, float, float] | None:
    if not idle:
        return None
    values = pl.Series(idle)
    return min(idle), float(values.median() or 0.0), max(idle)  # type: ignore[arg-type]
