"""Tail drop."""

from __future__ import annotations

from typing import Literal

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveBytes
from narrows.scenario.queues.fields import Packets

__all__ = ["Bfifo", "Pfifo"]


class Pfifo(Table):
    """Tail drop, counted in packets: tc-pfifo(8)."""

    kind: Literal["pfifo"] = "pfifo"
    """Which discipline this is."""
    limit: Packets
    """Packets that the queue holds."""


class Bfifo(Table):
    """Tail drop, counted in bytes: tc-bfifo(8)."""

    kind: Literal["bfifo"] = "bfifo"
    """Which discipline this is."""
    limit: PositiveBytes
    """Bytes that the queue holds, the link's `framing.queue_overhead` included."""
