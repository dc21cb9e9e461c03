"""Data without end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from narrows.scenario.traffic.connections import Connections

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner


class Bulk(Connections):
    """Connections that send data without end."""

    kind: Literal["bulk"] = "bulk"
    """Which kind of traffic this is."""

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application, `bulk`."""
        return [self.application("bulk", connections=self.lower_connections(planner))]
