"""The part of a scenario that each machine runs, and the agent's job there.

The design is the kernel backend's (`backends.kernel.design`) without narrows-live: the agent's own
clients and servers play. Namespaces and addresses are the machines' own, and so is the network
between them: nothing sets up the scenario's links, queues and routes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
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

_FIRST_PORT = 10_000
_HERE = ""
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
        design = _design(scenario, self.plan)
        self.job: Mapping[str, Any] = design.job()
        """The kernel backend's whole job."""
        self.flows = design.flows
        self._check()

    @property
    def all(self) -> Sequence[Part]:
        """Every part that the scenario needs; monitors may join them."""
        nodes: Sequence[str] = self.plan["nodes"]
        found = set()
        for group in self.job["bulk"]:
            for flow in group["flows"]:
                found.add(Part("serve", nodes[int(flow["acceptor"])]))
                found.add(Part("drive", nodes[int(flow["opener"])]))
        for server in self.job["dns_servers"]:
            found.add(Part("serve", nodes[int(server["namespace"])]))
        for group in self.job["dns"]:
            found.add(Part("resolve", nodes[int(group["client"])]))
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

    def of(self, part: Part, lab: Lab) -> dict[str, Any]:
        """The agent's job at a part's machine.

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
        node = str(self.plan["nodes"].index(part.node))
        told = self._placed(lab)
        bulk = []
        for group in told["bulk"]:
            end = {"serve": "acceptor", "drive": "opener"}.get(part.role)
            other = "opener" if end == "acceptor" else "acceptor"
            flows = [
                {**flow, end: _HERE, other: None}
                for flow in group["flows"]
                if end is not None and flow[end] == node
            ]
            bulk.extend([{**group, "flows": flows}] if flows else [])
        dns = [
            {**group, "client": _HERE}
            for group in told["dns"]
            if part.role == "resolve" and group["client"] == node
        ]
        servers = [
            {**server, "namespace": _HERE}
            for server in told["dns_servers"]
            if part.role == "serve" and server["namespace"] == node
        ]
        # It has no namespaces, devices, queues or other parts of the network.
        nothing = {key: type(value)() for key, value in told.items()}
        return {
            **nothing,
            "seed": self.seed,
            "duration_s": told["duration_s"],
            "end_when_done": part.role == "resolve" and told["end_when_done"],
            "samples": {"queues": None, "links": None},
            **{"bulk": bulk, "dns": dns, "dns_servers": servers},
        }

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
        nodes: Sequence[str] = self.plan["nodes"]
        node = str(nodes.index(part.node))
        routes = {route["to"]: route["metrics"] for route in self.job["routes"].get(node, ())}
        peers: dict[str, Mapping[str, int]] = {}
        for number, address, key in self._peers(node):
            wanted = routes[address]
            if peers.setdefault(lab.address(nodes[number]), wanted) != wanted:
                raise MachineError(
                    f"{key}: connections from {part.node} to {nodes[number]} differ in route "
                    "settings (ECN, initial window, minimum timeout); hint: use a node for each"
                )
        return peers

    def _peers(self, node: str) -> Sequence[tuple[int, str, str]]:
        """The peers of a node's connections: node number, address in the design, key."""
        found = []
        for group in self.job["bulk"]:
            for flow in group["flows"]:
                key = f"traffic.{self.flows[flow['flow']]['group']}.tcp"
                for here, there in (("opener", "acceptor"), ("acceptor", "opener")):
                    if flow[here] == node:
                        found.append((int(flow[there]), flow[f"{there}_address"], key))
        for group in self.job["dns"]:
            server = next(
                each
                for each in self.job["dns_servers"]
                if group["udp" if group["tcp"] is None else "tcp"]["server_address"]
                in each["addresses"]
            )
            for transport in ("udp", "tcp"):
                if group[transport] is not None and group["client"] == node:
                    address = group[transport]["server_address"]
                    key = f"dns.{group['group']}.transport"
                    found.append((int(server["namespace"]), address, key))
        return found

    def _placed(self, lab: Lab) -> dict[str, Any]:
        """The job with the machines' addresses instead of those of the namespaces."""
        nodes: Sequence[str] = self.plan["nodes"]

        def at(number: str) -> str:
            return lab.address(nodes[int(number)])

        told: dict[str, Any] = json.loads(json.dumps(self.job))
        ports: dict[str, int] = {}
        for group in told["bulk"]:
            for flow in group["flows"]:
                # A node has one address here, not one for each flavour.
                port = ports.get(flow["opener"], _FIRST_PORT)
                ports[flow["opener"]] = port + 1
                flow["opener_address"], flow["opener_port"] = at(flow["opener"]), port
                flow["acceptor_address"] = at(flow["acceptor"])
        places: dict[str, str] = {}
        for server in told["dns_servers"]:
            places |= dict.fromkeys(server["addresses"], at(server["namespace"]))
            server["addresses"] = [at(server["namespace"])]
            # Whoever else asks gets nothing, so that the server amplifies no stranger's packets.
            server["clients"] = sorted(set(lab.addresses.values()))
        for group in told["dns"]:
            for transport in ("udp", "tcp"):
                if group[transport] is not None:
                    ends = group[transport]
                    ends["client_address"] = at(group["client"])
                    ends["server_address"] = places[ends["server_address"]]
        return told

    def _check(self) -> None:
        """Refuses unsupported keys by name.

        Raises:
            MachineError: The scenario has something that is not supported.
        """
        for application in self.plan["applications"]:
            ((kind, told),) = application["kind"].items()
            if kind not in _KINDS or (kind == "bulk" and told.get("bursts") is not None):
                raise MachineError(
                    f"traffic.{application['name']}.kind: only bulk traffic and DNS run between "
                    "machines yet"
                )
        if self.scenario.measure is not None:
            raise MachineError(
                "measure: machines do not sample their connections at the window's ends; "
                "hint: leave it out"
            )
        held: dict[str, str] = {}
        for server in self.job["dns_servers"]:
            name, node = server["group"], server["namespace"]
            if node in held:
                raise MachineError(
                    f"dns.{name}.server: a machine has only one DNS server, that of "
                    f"{held[node]}; hint: use another node"
                )
            held[node] = name
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
    }
    profile = json.loads(_core.tcp_profile("linux-6"))
    told = {**plan, **nothing, "links": links}
    design = Design(told, profile, prefix="", stall_s=0.0)
    if design.refusals:
        raise together(
            [
                MachineError(f"{scenario.name}: {key}: {why}" + (f"; hint: {hint}" if hint else ""))
                for key, why, hint in design.refusals
            ]
        )
    return design
