"""Stochastic fairness queueing as in Linux."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveBytes, Span, at_most, refuse
from narrows.scenario.queues.fields import Packets, Switch

__all__ = ["Sfq"]


class Sfq(Table):
    """Stochastic fairness queueing: tc-sfq(8)."""

    kind: Literal["sfq"] = "sfq"
    """Which discipline this is."""
    limit: Packets = 127
    """Packets that may wait, of all flows together."""
    depth: Annotated[int, Field(strict=True, ge=1, le=127)] = 127
    """Packets that may wait in a bucket."""
    divisor: Annotated[int, Field(strict=True, ge=1, le=65_536)] = 1024
    """Buckets; a power of two."""
    flows: Annotated[int, Field(strict=True, ge=1, le=65_408)] = 128
    """Buckets that may have packets at a time."""
    quantum: Annotated[PositiveBytes, at_most(262_136, "262136 B")] = 1514
    """Bytes that a bucket may send in its turn; at most 262136 B."""
    perturb: Span = 0
    """How often the hash changes; never by default."""
    headdrop: Switch = False
    """Drops the packet that has waited longest in its bucket, instead of the one that came last."""

    @model_validator(mode="after")
    def _is_possible(self) -> Sfq:
        if self.divisor & (self.divisor - 1):
            below = 1 << (self.divisor.bit_length() - 1)
            raise refuse("is no power of two", f"{below} or {2 * below}", "divisor")
        return self
