"""A number of bytes, then close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from narrows.scenario.quantities import TransferSize
from narrows.scenario.traffic.bursts import Bursts

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner


class Once(Bursts):
    """Connections that send a number of bytes and then close."""

    kind: Literal["once"] = "once"
    """Which kind of traffic this is."""
    size: TransferSize
    """Bytes that each connection sends."""

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """A single burst for each connection."""
        return self.lower_bursts(planner, burst=self.size, idle=0, bursts=1)
