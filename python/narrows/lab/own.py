"""Parts of the user's own in a scenario of the page, where all that differs is a value of the plan.

A queue in Python takes the place of a link's queue when a run begins, so no plan shows it. For the
page, the scenario has in that place a queue `plugin` with the name of the class. The numbers among
the arguments of classes are settings, as those of plugins are. So knobs turn them like those of any
queue or control, or choose another one instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from narrows.scenario.tcp import own_controls

if TYPE_CHECKING:
    from narrows.backends.outside import Outside
    from narrows.controls import Control
    from narrows.queues import Queue
    from narrows.scenario import Scenario

_PLACEHOLDER = {"pfifo": {"limit": 1000}}


def marked(scenario: Scenario, parts: Outside) -> Scenario:
    """A scenario that names the user's queues, and the numbers of the user's classes."""
    named = parts.named_queues(scenario)
    changes: dict[str, Any] = {
        f"links.{place}.queue": {"kind": "plugin", "name": _name(queue), **queue.numbers()}
        for place, queue in parts.queues.items()
        if place not in named
    }
    for key, name in own_controls(scenario):
        if name in parts.controls and (numbers := parts.controls[name].numbers()):
            changes[key] = {"name": name, **numbers}
    return scenario.with_(changes) if changes else scenario


def placed(plan: Mapping[str, Any], parts: Outside) -> tuple[dict[str, Any], Outside]:
    """The plan that the simulator gets, and the parts with the numbers that the plan names.

    A link that names no queue of the user's has the queue that the plan says.
    """
    places = {link["name"] for link in plan["links"]}
    # The scenario names the others.
    queues: dict[str, Queue] = {
        name: queue for name, queue in parts.queues.items() if name not in places
    }
    links = []
    for link in plan["links"]:
        own, named = parts.queues.get(link["name"]), _custom(link["queue"])
        if own is not None and named and named["name"] == _name(own):
            queues[link["name"]] = own.changed(_numbers(named))
            link = {**link, "queue": _PLACEHOLDER}
        links.append(link)
    controls: dict[str, Control] = dict(parts.controls)
    names: dict[str, str] = {}
    tcp = []
    for settings in plan["tcp"]:
        named = _custom(settings["congestion"])
        if named and named["settings"] and named["name"] in parts.controls:
            # A name of its own for each set of numbers: the simulator knows classes by their names.
            name = names.setdefault(json.dumps(named), f"{named['name']}-{len(names) + 1}")
            controls[name] = parts.controls[named["name"]].changed(_numbers(named))
            settings = {**settings, "congestion": {"custom": {"name": name, "settings": []}}}
        tcp.append(settings)
    return {**plan, "links": links, "tcp": tcp}, replace(parts, queues=queues, controls=controls)


def _custom(part: Any) -> Mapping[str, Any] | None:
    """A queue or a control of the plan that is the user's own: its name and its settings."""
    if not isinstance(part, dict):
        return None
    found: Mapping[str, Any] | None = part.get("plugin") or part.get("custom")
    return found


def _numbers(named: Mapping[str, Any]) -> dict[str, float]:
    return {each["key"]: each["number"] for each in named["settings"] if each["number"] is not None}


def _name(queue: Queue) -> str:
    return type(queue).__name__
