"""Deficit round robin, and the two variants of Kantawala and Turner."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from narrows.scenario.base import Table
from narrows.scenario.quantities import (
    PositiveBytes,
    Probability,
    read_span,
    refuse,
    span_text,
)
from narrows.scenario.queues.fields import Packets

__all__ = ["Drr", "Qsdrr", "Tdrr"]


class RoundRobin(Table):
    limit: Packets = 1000
    """Packets that may wait, of all flows together."""
    quantum: PositiveBytes = 1500
    """Bytes that a flow may send in its turn; no smaller than a packet, says the paper."""
    buckets: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    """Queues that all flows share by a hash; by default each flow has its own."""


class Longest(RoundRobin):
    longest_by: Literal["bytes", "packets"] = "bytes"
    """What the length of a flow's queue is counted in (ns-2: bytes; Linux's SFQ: packets)."""
    ties: Literal["oldest", "newest"] = "oldest"
    """Which of several longest queues loses a packet: the one that has been so long for the longest
    time, or the one that became so long last."""
    drop_from: Literal["front", "tail"] = "front"
    """Which end of the queue loses packets."""


class Drr(Longest):
    """Deficit round robin that drops from the longest queue."""

    kind: Literal["drr"] = "drr"
    """Which discipline this is."""


class Qsdrr(Longest):
    """Queue state DRR (Kantawala and Turner 2002).

    It goes on dropping from the queue that was the longest until that is the shortest, or empty.
    """

    kind: Literal["qsdrr"] = "qsdrr"
    """Which discipline this is."""
    when_empty: Literal["undefine", "keep"] = "undefine"
    """What becomes of that queue when it is empty: it is forgotten, or it stays."""


def _read_sample(value: Any) -> Any:
    if value == "packet":
        return value
    span = read_span(value)
    if span == 0:
        raise refuse("must be above zero")
    return span


Sample = Annotated[
    Literal["packet"] | int,
    BeforeValidator(_read_sample),
    PlainSerializer(
        lambda value: value if value == "packet" else span_text(value),
        return_type=str,
        when_used="json",
    ),
    WithJsonSchema({"type": "string", "title": 'duration above zero, or `"packet"`'}),
]


class Tdrr(RoundRobin):
    """Throughput DRR (Kantawala and Turner 2002): drops from the queue of highest throughput."""

    kind: Literal["tdrr"] = "tdrr"
    """Which discipline this is."""
    drop_from: Literal["front", "tail"] = "front"
    """Which end of the queue loses packets."""
    weight: Annotated[Probability, Field(gt=0.0, lt=1.0)] = 0.03125
    """Weight of a new sample in a flow's average throughput."""
    sample: Sample = 100 * 10**9
    """What a sample is: the throughput over an interval of this length, or with `"packet"` the
    bytes of each packet that leaves by the time since the one before."""
    remember: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 65_536
    """Flows without packets whose throughput is remembered."""
