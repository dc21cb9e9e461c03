"""Whose packets' one-way delays a scenario measures: `monitor.delays`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows.scenario.checks import too_many
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, known
from narrows.scenario.sampled_flows import chosen
from narrows.scenario.suggestions import suggestion

if TYPE_CHECKING:
    from narrows.scenario.tables import Tables


def lower(scenario: Tables) -> dict[str, Any]:
    """The plan's key for measured delays; empty if there are none."""
    delays = scenario.monitor.delays
    if delays is None:
        return {}
    groups = {group.name: group for _, group in scenario.groups()}
    names = {name for pattern in delays.groups for name in chosen(pattern, groups)}
    start, end = scenario.window() or (0, scenario.duration + 1)
    monitor = {
        "groups": [name for name in groups if name in names],
        "flows": delays.flows,
        "packets": delays.packets,
        "from": start,
        "to": end,
    }
    return {"one_way_monitor": monitor}


def faults(scenario: Tables) -> Faults:
    """What is wrong with the measured groups, as far as the scenario's values are known."""
    delays = known(scenario.monitor, "delays")
    if delays is None:
        return
    key = "monitor.delays.groups"
    groups = {group.name: group for _, group in scenario.groups()}
    too_long = list(too_many(delays.groups, len(groups), key, "groups"))
    yield from too_long
    if too_long:
        return
    for index, pattern in enumerate(delays.groups):
        if not chosen(pattern, groups):
            words = suggestion(pattern, list(groups)) if groups else "leave monitor.delays out"
            yield refuse(f'"{pattern}" is not a group', words, f"{key}[{index}]")
