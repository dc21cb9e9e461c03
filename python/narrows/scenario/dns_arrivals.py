"""DNS queries that arrive independently of answers: an open loop, like a resolver's users."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from narrows.scenario.amounts import SECOND
from narrows.scenario.declared import Declared, DeclaredTable


class Arrivals(DeclaredTable, declares="Arrivals", without=("interval",)):
    """Queries that begin at their own times, whether earlier ones are answered or not."""

    per_second: Annotated[float, Field(ge=0.001, le=1_000_000, allow_inf_nan=False, strict=True)]
    """Queries that arrive in a second, on average."""
    outstanding: Annotated[int, Declared("DnsClient", "workers")] = 4000
    """The most queries under way at once. A query that arrives beyond this is not asked: it counts
    as unanswered and `turned_away`, and its row in the table `queries` has no attempts."""

    @property
    def interval(self) -> int:
        """The mean time between two arrivals, in picoseconds."""
        return max(1, round(SECOND / self.per_second))

    def plan(self) -> dict[str, Any]:
        """The part of the plan."""
        return {"interval": self.interval, **self.plain()}
