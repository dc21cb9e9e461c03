"""CoDel, with the parameters and defaults of Linux."""

from __future__ import annotations

from typing import Literal

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveBytes, PositiveSpan, Span
from narrows.scenario.queues.fields import Packets, Switch

__all__ = ["Codel"]


class Codel(Table):
    """CoDel: tc-codel(8), RFC 8289."""

    kind: Literal["codel"] = "codel"
    """Which discipline this is."""
    limit: Packets = 1000
    """Packets that may wait."""
    target: PositiveSpan = 5 * 10**9
    """The waiting time that is acceptable where it lasts."""
    interval: PositiveSpan = 100 * 10**9
    """How long the waiting time may stay above `target`; about the longest round-trip time."""
    ecn: Switch = False
    """Marks packets of ECN-capable transports instead of dropping them."""
    ce_threshold: Span | None = None
    """Waiting time above which every ECN-capable packet is marked; none by default."""
    mtu: PositiveBytes = 1514
    """The largest packet: nothing is dropped where no more bytes than this are left behind."""
