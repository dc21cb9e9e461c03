"""FQ-CoDel, with the parameters and defaults of Linux."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveBytes, PositiveSpan, Span, at_least, at_most
from narrows.scenario.queues.fields import Packets, Switch

__all__ = ["FqCodel"]


class FqCodel(Table):
    """FQ-CoDel: tc-fq_codel(8), RFC 8290."""

    kind: Literal["fq-codel"] = "fq-codel"
    """Which discipline this is."""
    limit: Packets = 10_240
    """Packets that may wait in all queues together."""
    memory_limit: PositiveBytes = 32 << 20
    """Bytes that may wait in all queues together."""
    flows: Annotated[int, Field(strict=True, ge=1, le=65_536)] = 1024
    """Queues that flows are hashed to."""
    quantum: Annotated[PositiveBytes, at_least(256, "256 B"), at_most(2**20, "1048576 B")] = 1514
    """Bytes that a flow may send in its turn; 256 B to 1 MiB."""
    target: PositiveSpan = 5 * 10**9
    """The waiting time that is acceptable where it lasts."""
    interval: PositiveSpan = 100 * 10**9
    """How long the waiting time may stay above `target`; about the longest round-trip time."""
    ecn: Switch = True
    """Marks packets of ECN-capable transports instead of dropping them."""
    ce_threshold: Span | None = None
    """Waiting time above which every ECN-capable packet is marked; none by default."""
    drop_batch: Annotated[int, Field(strict=True, ge=1, le=65_536)] = 64
    """Packets of the fattest flow that an overflow drops at most."""
    mtu: PositiveBytes = 1514
    """The largest packet: nothing is dropped where no more bytes than this are left behind."""
    when_empty: Literal["forget", "keep"] = "forget"
    """What becomes of the time since which a flow's packets have waited for more than `target`,
    once its queue is empty: Linux forgets it since March 2026, and kept it before."""
