"""The scenario language, which describes a network, its queues and its traffic.

Scenarios are TOML files or Python objects; docs/reference/scenario.md explains every key.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from narrows.errors import ScenarioError
from narrows.scenario.changes import Change
from narrows.scenario.dns import Dns
from narrows.scenario.dns_answers import Answers
from narrows.scenario.dns_arrivals import Arrivals
from narrows.scenario.dns_connections import Tries
from narrows.scenario.dns_messages import Exchange, Lengths
from narrows.scenario.dns_transports import (
    OverHttp3,
    OverHttps,
    OverQuic,
    OverTcp,
    OverTls,
    OverUdp,
)
from narrows.scenario.draws import SpanDistribution, TransferDistribution
from narrows.scenario.example_files import Example, copy_example, example, examples
from narrows.scenario.links import (
    Direction,
    DirectionKeys,
    Framing,
    GilbertElliott,
    Jitter,
    Link,
    Middlebox,
    Ring,
)
from narrows.scenario.measure import Measure
from narrows.scenario.model import Scenario
from narrows.scenario.monitor import Capture, FlowSampler, Monitor, Sampler
from narrows.scenario.queues import DISCIPLINES, Discipline, Queue
from narrows.scenario.retry import SCHEDULES, Schedule
from narrows.scenario.tables import Nodes
from narrows.scenario.tcp import PROFILES, Delayed, Tcp
from narrows.scenario.traffic import KINDS, Group, Traffic

if TYPE_CHECKING:
    from narrows.scenario.queues.kinds import *  # noqa: F403
    from narrows.scenario.schema import json_schema as json_schema
    from narrows.scenario.traffic.connections import Connections as Connections
    from narrows.scenario.traffic.kinds import *  # noqa: F403

__all__ = [
    "DISCIPLINES",
    "KINDS",
    "PROFILES",
    "SCHEDULES",
    "Answers",
    "Arrivals",
    "Capture",
    "Change",
    "Connections",
    "Delayed",
    "Direction",
    "DirectionKeys",
    "Discipline",
    "Dns",
    "Example",
    "Exchange",
    "FlowSampler",
    "Framing",
    "GilbertElliott",
    "Group",
    "Jitter",
    "Lengths",
    "Link",
    "Measure",
    "Middlebox",
    "Monitor",
    "Nodes",
    "OverHttp3",
    "OverHttps",
    "OverQuic",
    "OverTcp",
    "OverTls",
    "OverUdp",
    "Queue",
    "Ring",
    "Sampler",
    "Scenario",
    "ScenarioError",
    "Schedule",
    "SpanDistribution",
    "Tcp",
    "Traffic",
    "TransferDistribution",
    "Tries",
    "copy_example",
    "example",
    "examples",
    "json_schema",
]

# `__getattr__` adds the kinds. A new one only needs a line in the list of its kinds.
_NAMES: list[str] = globals().pop("__all__")
_HOMES = {"Connections": "traffic.connections", "json_schema": "schema"}
_OF_KINDS = ("traffic.kinds", "queues.kinds")


def __getattr__(name: str) -> Any:
    """Imports a name on first use: a run needs few kinds of traffic and of queues."""
    if name == "__all__":
        kinds = [vars(import_module(f"{__name__}.{module}")) for module in _OF_KINDS]
        named = (each for names in kinds for each in names)
        return [*_NAMES, *(each for each in named if each[0].isupper() and not each.isupper())]
    modules = [_HOMES[name]] if name in _HOMES else _OF_KINDS if name[0].isupper() else []
    for module in modules:
        home = import_module(f"{__name__}.{module}")
        if hasattr(home, name):
            value = globals()[name] = getattr(home, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
