"""The part of a scenario that each machine plays.

The program is the kernel backend's, narrows-live, and so is the design: which sysctls and metrics
of routes the scenario's TCP needs. Addresses are the machines' own, and so is the network between
them: nothing sets up the scenario's links, queues and routes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from narrows import _core
from narrows.backends.kernel.design import Design
from narrows.backends.kernel.software import named
from narrows.errors import argument, together
from narrows.machines.errors import MachineError
from narrows.machines.lab import Lab
from narrows.scenario import Scenario

ROLES = {
    "serve": "narrows traffic serve",
    "drive": "narrows traffic drive",
    "resolve": "narrows resolve",
    "monitor": "narrows monitor",
}
"""The command that runs each role."""

_KINDS = {"bulk", "dns-client", "dns-server"}
"""The kinds of the plan's applications that run between machines."""

_PLAIN = {
    "queue": {"pfifo": {"limit": 1000}},
    "ring": None,
    "jitter": None,
    "loss": 0.0,
    "middlebox": None,
    "dns_exempt": False,
    "opportunities_ms": None,
    "framing": {"overhead": 38, "min": 84, "queue_overhead": 14},
}
"""The keys of every link in the design; the real network between machines replaces the link."""


class Part(NamedTuple):
    """A program of the scenario at a node."""

    role: str
    node: str

    def __str__(self) -> str:
        return f"{ROLES[self.role]} --node {self.node}"


class Given(NamedTuple):
    """What narrows-live gets at a machine."""

    plan: Mapping[str, Any]
    """The simulator's input, without the links' settings."""
    places: Mapping[str, Any]
    """The addresses of the nodes' machines."""
    arguments: Sequence[str]
    """Which part it plays."""


class Connection(NamedTuple):
    """A connection of bulk traffic."""

    sender: str
    receiver: str
    is_download: bool
    """Whether the receiver opens it."""

    @property
    def opener(self) -> str:
        """The node that opens it."""
        return self.receiver if self.is_download else self.sender

    @property
    def acceptor(self) -> str:
        """The node that accepts it."""
        return self.sender if self.is_download else self.receiver


class Parts:
    """The parts of a scenario."""

    def __init__(self, scenario: Scenario, seed: int | None = None) -> None:
        """Designs the whole.

        Raises:
            MachineError: The scenario has traffic that is not possible between machines.
        """
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.plan: Mapping[str, Any] = json.loads(json.dumps(scenario.plan(self.seed)))
        text = json.dumps(self.plan, sort_keys=True)
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        """The digest of the scenario's meaning; all machines must have the same one."""
        self._check_kinds()
        design = _design(scenario, self.plan)
        self._played, self._places = design.plan, design.places()
        self.job: Mapping[str, Any] = design.job()
        """The kernel backend's job."""
        self.connections: Sequence[Connection] = [
            Connection(nodes[0], nodes[1], connection["opener"] == "receiver")
            for settings in self._settings("bulk").values()
            for connection in settings["connections"]
            for nodes in [self._ends(connection)]
        ]
        """The connections of bulk traffic, in the order of the table `flows`."""
        self._check_servers()

    @property
    def all(self) -> Sequence[Part]:
        """Every part that the scenario needs; monitors may join them."""
        found = set()
        for connection in self.connections:
            found |= {Part("serve", connection.acceptor), Part("drive", connection.opener)}
        for settings in self._settings("dns-client").values():
            client, server = self._ends(settings)
            found |= {Part("serve", server), Part("resolve", client)}
        return sorted(found, key=lambda part: (list(ROLES).index(part.role), part.node))

    def conducting(self, lab: Lab) -> Part:
        """The part that the others connect to, at the machine whose clock counts.

        Raises:
            MachineError: There is no such part.
        """
        for part in self.all:
            if part.node == lab.clock:
                return part
        raise MachineError(
            f"clock: {lab.clock} has no traffic in {self.scenario.name}; "
            f"hint: one of {', '.join(sorted({part.node for part in self.all}))}"
        )

    def of(self, part: Part, lab: Lab) -> Given:
        """What narrows-live gets at a part's machine.

        Raises:
            MachineError: The scenario has no such part, or no machine is named for a node.
        """
        if part.node not in self.plan["nodes"]:
            known = ", ".join(self.plan["nodes"])
            raise MachineError(
                f"{argument('node')} {part.node}: no such node; hint: one of {known}"
            )
        if part not in self.all:
            known = "; ".join(str(each) for each in self.all)
            raise MachineError(f"{part}: nothing to do in this scenario; hint: {known}")
        return Given(
            self._played,
            {node: {"address": lab.address(node)} for node in sorted({p.node for p in self.all})},
            ("--role", part.role, "--play", part.node),
        )

    def settings(self, part: Part) -> dict[str, str]:
        """The TCP sysctls of a part's node in the scenario, by path below /proc/sys/net."""
        found = self.job["settings"].get(str(self.plan["nodes"].index(part.node)), {})
        return {
            path: value
            for path, value in found.items()
            if path.startswith("ipv4/tcp_") or path == "core/somaxconn"
        }

    def metrics(self, part: Part, lab: Lab) -> dict[str, Mapping[str, int]]:
        """The metrics that a node's routes to its peers must have, by peer address.

        Raises:
            MachineError: Connections to the same peer need different routes.
        """
        node = str(self.plan["nodes"].index(part.node))
        routes = {route["to"]: route["metrics"] for route in self.job["routes"].get(node, ())}
        peers: dict[str, Mapping[str, int]] = {}
        for peer, use, key in self._peers(part.node):
            place = self._places[peer]
            also = {(each["tcp"], each["server"]): each["address"] for each in place["also"]}
            wanted = routes[also.get(use, place["address"])]
            if peers.setdefault(lab.address(peer), wanted) != wanted:
                raise MachineError(
                    f"{key}: connections from {part.node} to {peer} differ in route "
                    "settings (ECN, initial window, minimum timeout); hint: use a node for each"
                )
        return peers

    def _peers(self, node: str) -> Iterator[tuple[str, tuple[int | None, int | None], str]]:
        """The peers of a node's connections: the node, the use of the socket, the key."""
        for name, settings in self._settings("bulk").items():
            for connection in settings["connections"]:
                ends = self._ends(connection)
                for here, there in (ends, ends[::-1]):
                    if here == node:
                        yield there, (connection["tcp"], None), f"traffic.{name}.tcp"
        for name, settings in self._settings("dns-client").items():
            client, server = self._ends(settings)
            if client == node:
                uses = [None] if settings["udp"] is not None else []
                uses += [] if settings["tcp"] is None else [settings["tcp"]["tcp"]]
                for tcp in uses:
                    yield server, (tcp, settings["server"]), f"dns.{name}.transport"

    def _settings(self, wanted: str) -> dict[str, Any]:
        """The settings of the plan's applications of a kind, by name."""
        return {
            application["name"]: settings
            for application in self.plan["applications"]
            for kind, settings in application["kind"].items()
            if kind == wanted
        }

    def _ends(self, settings: Mapping[str, Any]) -> tuple[str, str]:
        """The nodes between which an application's path leads."""
        path, nodes = self.plan["paths"][settings["there"]], self.plan["nodes"]
        return nodes[path["from"]], nodes[path["to"]]

    def _check_kinds(self) -> None:
        """Refuses unsupported keys by name.

        Raises:
            MachineError: The scenario has something that is not supported.
        """
        for application in self.plan["applications"]:
            ((kind, settings),) = application["kind"].items()
            if kind not in _KINDS:
                raise MachineError(
                    f"traffic.{application['name']}.kind: only bulk traffic and DNS run between "
                    "machines yet"
                )
            tls = kind == "dns-client" and settings["tcp"] and settings["tcp"]["tls"]
            if tls and (tls["https"] or tls["quic"]):
                raise MachineError(
                    f"dns.{application['name']}.transport: only UDP, TCP and TLS run between "
                    "machines yet"
                )
        if self.scenario.measure is not None:
            raise MachineError(
                "measure: machines do not sample their connections at the window's ends; "
                "hint: leave it out"
            )
        if self.scenario.monitor.flows is not None:
            raise MachineError(
                "monitor.flows: machines do not sample their connections; hint: leave it out"
            )

    def _check_servers(self) -> None:
        """Refuses two servers on a machine.

        Raises:
            MachineError: The scenario has them, or no traffic at all.
        """
        held: dict[str, int] = {}
        for settings in self._settings("dns-client").values():
            _, node = self._ends(settings)
            if held.setdefault(node, settings["server"]) != settings["server"]:
                name, other = (
                    self.plan["applications"][number]["name"]
                    for number in (settings["server"], held[node])
                )
                raise MachineError(
                    f"dns.{name}.server: a machine has only one DNS server, that of "
                    f"{other}; hint: use another node"
                )
        if not self.all:
            raise MachineError(f"{self.scenario.name}: no traffic; hint: add bulk traffic or DNS")


def _design(scenario: Scenario, plan: Mapping[str, Any]) -> Design:
    """The kernel backend's design, over plain links.

    Raises:
        MachineError: Linux cannot honour the traffic, or the scenario has a real server.
    """
    for name in named(scenario):
        raise MachineError(
            f"dns.{name}.answers.software: real servers are not yet supported between machines; "
            "hint: leave it out"
        )
    links = [{**link, **_PLAIN, "rate": max(link["rate"], 10**9)} for link in plan["links"]]
    nothing: dict[str, Any] = {"changes": [], "captures": [], "neighbours": []}
    nothing |= {
        "queue_monitors": [],
        "link_monitors": [],
        "goodput_interval": None,
        "flow_samples": [],
        "flow_monitor": None,
    }
    profile = json.loads(_core.tcp_profile("linux-6"))
    reduced = {**plan, **nothing, "links": links}
    design = Design(reduced, profile, prefix="", stall_s=0.0)
    if design.refusals:
        raise together(
            [
                MachineError(f"{scenario.name}: {key}: {why}" + (f"; hint: {hint}" if hint else ""))
                for key, why, hint in design.refusals
            ]
        )
    return design
