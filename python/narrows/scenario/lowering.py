"""Turns a scenario into the simulator's plan: plain base units, and indices instead of names.

The plan is what `_core.plan_schema` describes, as serde reads it: instants and durations in
picoseconds, rates in bits per second, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from narrows.scenario import captures, checks, measured_delays, sampled_flows
from narrows.scenario.amounts import SECOND
from narrows.scenario.declared import DeclaredTable
from narrows.scenario.planner import Planner
from narrows.scenario.queues import Discipline
from narrows.scenario.queues.filters import with_numbers

if TYPE_CHECKING:
    from narrows.scenario.links import Direction
    from narrows.scenario.monitor import Sampler
    from narrows.scenario.tables import Tables


def lower(
    scenario: Tables, *, seed: int, event_limit: int, profile: Callable[[str], str]
) -> dict[str, Any]:
    """The plan of a scenario.

    Args:
        scenario: A scenario that has been checked.
        seed: 0 to 2**63 - 1, as in a file.
        event_limit: Events after which the run stops, 1 to 2**63 - 1.
        profile: Gives a TCP profile's settings as JSON.

    Raises:
        ValueError: Seed or event limit is out of range.
    """
    if not 0 <= seed < 2**63:
        raise ValueError(f"the seed must be 0 to {2**63 - 1}")
    if not 1 <= event_limit < 2**63:
        raise ValueError(f"the event limit must be 1 to {2**63 - 1}")
    nodes = checks.node_names(scenario)
    index = {name: position for position, name in enumerate(nodes)}
    directions = [
        direction
        for link in scenario.links
        for direction in (link.direction("forward"), link.direction("backward"))
    ]
    planner = Planner(scenario.network(), index, seed=seed, profile=profile)
    codepoints: list[dict[str, int]] = []
    for _, group in scenario.groups():
        first, lowered = planner.position, group.lower(planner)
        planner.applications += lowered
        of_group = group.codepoints()
        for number in range(len(lowered)):
            dscp = of_group[min(number, len(of_group) - 1)]
            if dscp:
                codepoints.append({"application": first + number, "dscp": dscp})
    planner.finish()
    neighbours = [
        {
            "there": planner.link_path(2 * position, *link.between),
            "back": planner.link_path(2 * position + 1, *reversed(link.between)),
        }
        for position, link in enumerate(scenario.links)
        if link.neighbours == "arp"
    ]
    return {
        "seed": seed,
        "end": scenario.duration,
        "end_when_done": scenario.end == "dns",
        "event_limit": event_limit,
        "nodes": nodes,
        "links": _links(directions, index),
        "changes": _changes(scenario, directions, index),
        "tcp": planner.tcp,
        "paths": planner.paths,
        "applications": planner.applications,
        **({"codepoints": codepoints} if codepoints else {}),
        "queue_monitors": _monitors(scenario, scenario.monitor.queues, "queues"),
        "link_monitors": _monitors(scenario, scenario.monitor.links, "links"),
        "delay_monitors": _delay_monitors(scenario),
        "goodput_interval": round(SECOND / scenario.monitor.goodput.rate),
        "flow_samples": [at for at in scenario.window() or () if at > 0],
        "flow_monitor": sampled_flows.lower(scenario),
        **measured_delays.lower(scenario),
        "captures": [each._asdict() for each in captures.select(scenario)],
        "neighbours": neighbours,
    }


def _links(directions: list[Direction], index: dict[str, int]) -> list[dict[str, Any]]:
    # Copies of a link share their parts, and so do their entries in the plan.
    shared: dict[tuple[int, int], Any] = {}

    def part(value: Any, rate: int) -> Any:
        if not isinstance(value, DeclaredTable):
            return value
        key = id(value), rate
        if key not in shared:
            queue = isinstance(value, Discipline)
            shared[key] = with_numbers(value.settled(rate), index) if queue else value.plain()
        return shared[key]

    return [
        {
            "name": direction.name,
            "from": index[direction.source],
            "to": index[direction.target],
            "opportunities_ms": direction.trace and direction.trace.opportunities,
            **{key: part(value, direction.rate) for key, value in direction.keys.items()},
        }
        for direction in directions
    ]


def _changes(
    scenario: Tables, directions: list[Direction], index: dict[str, int]
) -> list[dict[str, Any]]:
    """Changes of directed links in the order of time, each with the rate from then on."""
    changes = [
        {
            "at": at,
            "link": link,
            "rate": rate or direction.rate,
            "delay": None,
            "state": ("up" if rate else "down") if stops else None,
        }
        for link, direction in enumerate(directions)
        for rates in [(direction.trace and direction.trace.rates) or ()]
        for stops in [any(not rate for _, rate in rates)]
        for at, rate in rates
        if at < scenario.duration
    ]
    rates: dict[int, int] = {}
    for change, links in sorted(checks.select_changes(scenario), key=lambda entry: entry[0].at):
        for link in links:
            rate = rates.get(link, directions[link].rate) if change.rate is None else change.rate
            rates[link] = rate
            given = {"rate": rate, "delay": change.delay, "state": change.state}
            if change.queue is not None:
                given["queue"] = with_numbers(change.queue.settled(rate), index)
            for key in ("jitter", "loss"):
                value = getattr(change, key)
                if value is not None:
                    given[key] = value.plain() if isinstance(value, DeclaredTable) else value
            changes.append({"at": change.at, "link": link, **given})
    return sorted(changes, key=lambda change: change["at"])


def _delay_monitors(scenario: Tables) -> list[dict[str, int]]:
    start, end = scenario.window() or (0, scenario.duration)
    links = checks.select_links(scenario, scenario.monitor.queue_delays)
    return [{"link": link, "from": start, "to": end} for link in links]


def _monitors(scenario: Tables, sampler: Sampler | None, name: str) -> list[dict[str, int]]:
    if sampler is None:
        return []
    interval = round(SECOND / sampler.rate)
    links = checks.select_links(scenario, sampler.links)
    return [{"link": link, "interval": interval} for link in links]
