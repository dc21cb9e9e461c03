"""The distributions of scenarios, by the names that `narrows agreement --distribution` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from narrows.agreement import draws, home, modern
from narrows.scenario import Bulk, Scenario

BBR_FACTOR = 2.0
"""The bounds of a draw with BBR are this multiple of the metrics' own.

Set before any draw: all BBR connections shrink their windows at nearly the same time to measure the
round trip, and when they do depends on their first segments."""


@dataclass(frozen=True)
class Distribution:
    """A distribution of scenarios."""

    name: str
    drawn: Callable[[int, int], Scenario]
    """Makes a draw from a seed and the draw's number."""

    @staticmethod
    def factor(scenario: Scenario) -> float:
        """The multiple of the bounds for a draw."""
        controls = {each.tcp.congestion for each in scenario.traffic if isinstance(each, Bulk)}
        return BBR_FACTOR if "bbr" in controls else 1.0


CLASSIC = Distribution("classic", draws.drawn)
MODERN = Distribution("modern", modern.drawn)
HOME = Distribution("home", home.drawn)
DISTRIBUTIONS = {each.name: each for each in (CLASSIC, MODERN, HOME)}
