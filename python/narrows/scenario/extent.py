"""How large a scenario is: what `narrows check` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.scenario.model import Scenario


def extent(scenario: Scenario, plan: Mapping[str, Any]) -> dict[str, float]:
    """Counts nodes, links and what the traffic consists of; adds the longest time in seconds.

    Args:
        scenario: The scenario.
        plan: Its plan.
    """
    amounts = {of.many.replace(" ", "_"): number for of, number in scenario.amounts().items()}
    return {
        "nodes": len(plan["nodes"]),
        "links": len(scenario.links),
        **amounts,
        "longest_s": scenario.duration / 1e12,
    }
