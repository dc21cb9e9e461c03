"""The directed links that a group's packets pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.scenario.checks import DIRECTIONS

if TYPE_CHECKING:
    from narrows.scenario.links import Direction
    from narrows.scenario.routing import Network
    from narrows.scenario.tables import Tables
    from narrows.scenario.traffic import Leg


def passed(network: Network, leg: Leg) -> tuple[int, ...]:
    """The places of the directed links on a group's path, as the plan numbers them."""
    if leg.given is not None:
        return network.along(leg.source, leg.given, leg.target)
    return network.route(leg.source, leg.target) or ()


def direction(scenario: Tables, index: int) -> Direction:
    """The directed link at a place in the plan."""
    return scenario.links[index // 2].direction(DIRECTIONS[index % 2])
