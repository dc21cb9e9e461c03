"""PIE, with the parameters and defaults of Linux."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveBytes, PositiveSpan
from narrows.scenario.queues.fields import Packets, Switch

__all__ = ["Pie"]

Sixteenths = Annotated[int, Field(strict=True, ge=0, le=32)]


class Pie(Table):
    """PIE: tc-pie(8), RFC 8033."""

    kind: Literal["pie"] = "pie"
    """Which discipline this is."""
    limit: Packets = 1000
    """Packets that may wait."""
    target: PositiveSpan = 15 * 10**9
    """The delay to aim for."""
    tupdate: PositiveSpan = 15 * 10**9
    """Time between updates of the probability."""
    alpha: Sixteenths = 2
    """Weight of the distance from the target, in sixteenths."""
    beta: Sixteenths = 20
    """Weight of the delay's change since the last update, in sixteenths."""
    ecn: Switch = False
    """Marks packets of ECN-capable transports, while the probability is at most 10 %."""
    bytemode: Switch = False
    """Scales the probability by the packet's size over `mtu`."""
    dq_rate_estimator: Switch = False
    """Computes the delay from the backlog and an estimate of the departure rate, instead of
    measuring it."""
    mtu: PositiveBytes = 1514
    """The largest packet; nothing is dropped early while less than two of them wait."""
