"""Whose connections a scenario samples: `monitor.flows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from narrows.scenario.amounts import SECOND
from narrows.scenario.checks import MOST_SAMPLES, matches, too_many
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, known
from narrows.scenario.suggestions import suggestion

if TYPE_CHECKING:
    from narrows.scenario.tables import Tables
    from narrows.scenario.traffic import Group


def lower(scenario: Tables) -> dict[str, Any] | None:
    """The sampled groups and the time between samples, in the form of the plan."""
    flows = scenario.monitor.flows
    if flows is None:
        return None
    groups = [group.name for group in selected(scenario)]
    return {"groups": groups, "interval": round(SECOND / flows.rate)}


def selected(scenario: Tables) -> list[Group]:
    """The groups whose connections are sampled, in the scenario's order."""
    flows = scenario.monitor.flows
    groups = {group.name: group for _, group in scenario.groups()}
    patterns = () if flows is None else flows.groups
    names = {name for pattern in patterns for name in chosen(pattern, groups)}
    return [group for name, group in groups.items() if name in names and group.has_connections]


def faults(scenario: Tables) -> Faults:
    """What is wrong with the sampled groups, as far as the scenario's values are known."""
    flows = known(scenario.monitor, "flows")
    if flows is None:
        return
    key = "monitor.flows.groups"
    groups = {group.name: group for _, group in scenario.groups()}
    too_long = list(too_many(flows.groups, len(groups), key, "groups"))
    yield from too_long
    if too_long:
        return
    having = [name for name, group in groups.items() if group.has_connections]
    for index, pattern in enumerate(flows.groups):
        names = chosen(pattern, groups)
        if not names:
            words = suggestion(pattern, having) if having else "leave monitor.flows out"
            yield refuse(f'"{pattern}" is not a group', words, f"{key}[{index}]")
        elif not any(groups[name].has_connections for name in names):
            words = f'such as "{having[0]}"' if having else "leave monitor.flows out"
            said = f'"{pattern}" has no TCP or QUIC connections'
            yield refuse(said, words, f"{key}[{index}]")
    connections = sum(next(group.amounts()).number for group in selected(scenario))
    samples = connections * flows.rate * scenario.duration / SECOND
    if samples > MOST_SAMPLES:
        yield refuse(
            f"brings the samples to {samples:.0f}; at most {MOST_SAMPLES} can be recorded",
            "lower it, sample fewer groups, or shorten the run",
            "monitor.flows.rate",
        )


def chosen(pattern: str, groups: Mapping[str, Group]) -> Sequence[str]:
    """The names of the groups that a pattern selects."""
    if "*" not in pattern:
        return [pattern] if pattern in groups else []
    return [name for name in groups if matches(pattern, name)]
