"""The scenario language, which describes a network, its queues and its traffic.

Scenarios are TOML files or Python objects; docs/reference/scenario.md explains every key.
"""

from __future__ import annotations

from narrows.errors import ScenarioError
from narrows.scenario.changes import Change
from narrows.scenario.dns import Dns
from narrows.scenario.dns_answers import Answers
from narrows.scenario.dns_arrivals import Arrivals
from narrows.scenario.dns_connections import Tries
from narrows.scenario.dns_messages import Exchange, Lengths
from narrows.scenario.dns_transports import OverHttps, OverQuic, OverTcp, OverTls, OverUdp
from narrows.scenario.draws import SpanDistribution, TransferDistribution
from narrows.scenario.example_files import Example, copy_example, example, examples
from narrows.scenario.links import Direction, DirectionKeys, Framing, Jitter, Link, Middlebox, Ring
from narrows.scenario.measure import Measure
from narrows.scenario.model import Scenario
from narrows.scenario.monitor import Capture, FlowSampler, Monitor, Sampler
from narrows.scenario.queues import DISCIPLINES, Discipline, Queue
from narrows.scenario.queues import kinds as _queues
from narrows.scenario.queues.kinds import *  # noqa: F403
from narrows.scenario.retry import SCHEDULES, Schedule
from narrows.scenario.schema import json_schema
from narrows.scenario.tables import Nodes
from narrows.scenario.tcp import PROFILES, Delayed, Tcp
from narrows.scenario.traffic import KINDS, Connections, Group, Traffic
from narrows.scenario.traffic import kinds as _traffic
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
    "Discipline",
    "Dns",
    "Example",
    "Exchange",
    "FlowSampler",
    "Framing",
    "Group",
    "Jitter",
    "Lengths",
    "Link",
    "Measure",
    "Middlebox",
    "Monitor",
    "Nodes",
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
    "DirectionKeys",
    "copy_example",
    "example",
    "examples",
    "json_schema",
    # Every kind of traffic and of queue: a new one only needs a line in the list of its kinds.
    *(
        name
        for kinds in (_traffic, _queues)
        for name in vars(kinds)
        if name[0].isupper() and not name.isupper()
    ),
]
