"""How large a scenario is: what `narrows check` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.scenario.model import Scenario


def extent(scenario: Scenario, plan: Mapping[str, Any], *, every: bool = False) -> dict[str, float]:
    """Counts nodes, links and what the traffic consists of; adds the longest time in seconds.

    Args:
        scenario: The scenario.
        plan: Its plan.
        every: Whether to count what it has none of, too.
    """
    counted = scenario.amounts()
    if every:
        counted = {of: counted.get(of, 0) for of in scenario.countables()}
    amounts = {of.many.replace(" ", "_"): number for of, number in counted.items()}
    return {
        "nodes": len(plan["nodes"]),
        "links": len(scenario.links),
        **amounts,
        "longest_s": scenario.duration / 1e12,
    }
