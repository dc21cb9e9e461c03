"""What a plan's applications need of the hosts: addresses, routes and sysctls.

`narrows-live` plays the applications. Its sockets have the options that each connection wants; the
rest of TCP's settings are sysctls of a host, or metrics of the routes to an address. So connections
that differ in metrics get addresses of their own, and so does each of several servers of a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrows.backends.kernel.design.network import (
    FEWER,
    MOST_CONNECTIONS,
    PS,
    Network,
    Plan,
)
from narrows.backends.kernel.design.programs import Programs
from narrows.backends.kernel.software import Chosen

__all__ = ["Hosts"]

_COOKIES = {"never": "0", "when-full": "1", "always": "2"}
_SOMAXCONN = 4096
_STATELESS = "narrows-gateway needs eBPF or its own address, which a run does not have"
_LEAST_PACKET = 40
"""The IPv4 and UDP headers, and twelve bytes of meaning (`LEAST_PAYLOAD` of crates/live)."""
_MOST = {"streams": 1000, "calls": 500, "secondaries": 1000, "workers": 5000}
"""The most that a guest has room for, in all groups together."""

_MOST_FORGED = 20_000
"""Packets a second that a flood can send."""

_Paths = tuple[Plan, Plan]
_Use = tuple[int | None, int | None]


class Hosts:
    """The hosts of a plan's applications."""

    def __init__(self, network: Network, software: Mapping[str, Chosen]) -> None:
        """Creates none yet.

        Args:
            network: The network.
            software: The real DNS servers, by the names of their groups.
        """
        self._network = network
        self.programs = Programs(network, software)
        # By node: the address of its sockets, and the addresses of those with metrics of their own,
        # by their use.
        self._own: dict[int, str] = {}
        self._also: dict[int, dict[_Use, str]] = {}
        # By node: the networks that floods forge, by the number of the application.
        self._forged: dict[int, dict[int, str]] = {}
        self._turns: dict[int, int] = {}
        # The number of servers of a kind that a node has so far.
        self._at_node: dict[tuple[int, str], int] = {}
        self._counts: dict[str, int] = {}

    def places(self, folder: str) -> dict[str, Any]:
        """The places of `narrows-live`: namespace and addresses of each host, by its name.

        Args:
            folder: The folder of the namespaces.
        """
        network = self._network
        return {
            network.nodes[node]: {
                "namespace": f"{folder}/{network.spaces[node]}",
                # A place needs an address, even if all sockets of the node use others, or forge
                # theirs.
                "address": self._own.get(node) or next(iter(also.values()), "0.0.0.0"),
                "also": [
                    {"tcp": tcp, "server": server, "address": address}
                    for (tcp, server), address in also.items()
                ],
                "forged": self._forged.get(node, {}),
            }
            for node, also in self._also.items()
        }

    def add(self, number: int) -> None:
        """Adds what an application of the plan needs."""
        application = self._network.plan["applications"][number]
        ((kind, settings),) = application["kind"].items()
        name = application["name"]
        if kind in ("bulk", "on-off"):
            self._bulk(name, settings)
        elif kind in ("udp", "trace", "ping", "voip"):
            self._datagrams(name, kind, settings)
        elif kind in ("incast", "page"):
            self._asking(name, kind, settings)
        elif kind == "dns-client":
            self._dns(number, name, settings)
        elif kind == "transfer":
            self._transfer(name, settings)
        elif kind == "flood":
            self._flood(number, name, settings)
        elif kind not in ("dns-server", "responder"):
            self._network.refuse(f"traffic.{name}.kind", f"{kind} is not supported yet")

    def _bulk(self, name: str, settings: Plan) -> None:
        key = f"traffic.{name}."
        connections = settings["connections"]
        self._count("connections", len(connections), f"{key}connections", MOST_CONNECTIONS)
        for connection in connections:
            self._connect(
                self._paths(connection),
                connection["tcp"],
                None,
                (key, f"{key}route", f"{key}route_back"),
            )

    def _datagrams(self, name: str, kind: str, settings: Plan) -> None:
        key = f"traffic.{name}."
        which = "calls" if kind == "voip" else "streams"
        self._count(which, len(settings[which]), f"{key}{'calls' if kind == 'voip' else 'pairs'}")
        if kind == "trace":
            least = min(length for _, length in settings["packets"])
        else:
            least = settings.get("packet_bytes", _LEAST_PACKET)
        if least < _LEAST_PACKET:
            entry = "file" if kind == "trace" else "packet"
            self._network.refuse(f"{key}{entry}", f"a datagram needs {_LEAST_PACKET} B here")
        for stream in settings[which]:
            keys = (key, f"{key}route", f"{key}route_back")
            self._address(self._paths(stream), (None, None), (), keys)

    def _asking(self, name: str, kind: str, settings: Plan) -> None:
        key = f"traffic.{name}."
        number = settings["responder"]
        count = len(settings["servers"])
        if kind == "page":
            count *= settings["browsers"] * settings["connections"]
        places = "browsers" if kind == "page" else "connections"
        self._count("connections", count, f"{key}{places}", MOST_CONNECTIONS)
        responder = self._application(number)
        network = self._network
        self._place(number, {self._paths(server)[0]["to"] for server in settings["servers"]})
        use = network.use(settings["tcp"], key)
        if responder["tcp"] != settings["tcp"] and network.use(responder["tcp"], key) != use:
            network.refuse(f"{key}tcp", "both ends need the same settings")
        for server in settings["servers"]:
            keys = (key, f"{key}server", f"{key}server")
            self._connect(self._paths(server), settings["tcp"], number, keys)
            if settings.get("secure") and settings["secure"]["quic"]:
                self._address(self._paths(server), (None, number), (), keys)

    def _dns(self, client: int, name: str, settings: dict[str, Any]) -> None:
        key = f"dns.{name}."
        network, number, paths = self._network, settings["server"], self._paths(settings)
        places = "workers" if settings["arrivals"] is None else "arrivals.outstanding"
        self._count("workers", settings["workers"], f"{key}{places}")
        keys = (key, f"{key}route", f"{key}route_back")
        self._serve(number, paths[0]["to"])
        if self.programs.is_real(number):
            self.programs.ask(client, name, settings)
        quic = settings["tcp"] and settings["tcp"]["tls"] and settings["tcp"]["tls"]["quic"]
        if settings["udp"] is not None or quic:
            self._address(paths, (None, number), (), keys)
        if settings["tcp"] is not None:
            tcp = settings["tcp"]["tcp"]
            use = network.use(tcp, key)
            network.hold(paths[0]["from"], use, key)
            self._address(paths, (tcp, number), use.metrics, keys)

    def _transfer(self, name: str, settings: Plan) -> None:
        key = f"traffic.{name}."
        network, number = self._network, settings["server"]
        self._count("secondaries", len(settings["secondaries"]), f"{key}secondaries")
        if self.programs.is_real(number):
            network.refuse(f"{key}zone", "a real server has only the zone of its queries")
        use = network.use(settings["tcp"], key)
        for secondary in settings["secondaries"]:
            paths = self._paths(secondary)
            self._serve(number, paths[0]["to"])
            network.hold(paths[0]["from"], use, key)
            keys = (key, f"{key}route", f"{key}route_back")
            self._address(paths, (settings["tcp"], number), use.metrics, keys)
        if self._application(number)["tcp"] is None:
            network.refuse(f"{key}server", "it has no TCP")

    def _flood(self, flood: int, name: str, settings: Plan) -> None:
        key = f"traffic.{name}."
        network, number, (there, back) = self._network, settings["server"], self._paths(settings)
        if settings["interval"] * _MOST_FORGED < PS:
            network.refuse(f"{key}per_second", f"more than {_MOST_FORGED} a second")
        self._serve(number, there["to"])
        flavour = network.flavour((), key, self._turns[number])
        network.route(there, flavour, f"{key}server")
        address = network.address(there["to"], flavour)
        self._also.setdefault(there["to"], {})[None, number] = address
        self.programs.answer_at(number, address)
        if self.programs.is_real(number) and settings["of"] != "syns":
            self.programs.flood(flood, name, settings)
        server = self._application(number)["tcp"]
        if settings["of"] == "syns" and server and server["half_open"]["cookies"] != "never":
            owner = network.plan["applications"][number]["name"]
            asks = f"dns.{owner}.answers.syncookies"
            network.need(there["to"], "ipv4/tcp_syncookies", asks)
        forged = network.forge(back, key)
        if forged is not None:
            self._also.setdefault(there["from"], {})
            own = self._forged.setdefault(there["from"], {})
            own[flood] = forged.partition("/")[0]

    def _serve(self, number: int, node: int) -> None:
        """Sets the sysctls of a DNS server's host."""
        network = self._network
        self._place(number, {node})
        is_real = self.programs.is_real(number)
        if is_real:
            self.programs.serve(number, node)
        settings, name = self._application(number), network.plan["applications"][number]["name"]
        # A server is named after its own group, even if another group asks it first.
        key = f"dns.{name}."
        if settings["tcp"] is None:
            return
        if settings["tcp"]["stateless"]:
            network.refuse(f"{key}answers.stateless", _STATELESS, "leave it out")
        use = network.use(settings["tcp"]["tcp"], key)
        network.hold(node, use, key)
        half_open = settings["tcp"]["half_open"]
        sysctls = {
            "ipv4/tcp_max_syn_backlog": str(half_open["max_syn_backlog"]),
            "ipv4/tcp_synack_retries": str(half_open["synack_retries"]),
            "ipv4/tcp_syncookies": _COOKIES[half_open["cookies"]],
            # The longest backlog that listen(2) takes.
            "core/somaxconn": str(max(_SOMAXCONN, settings["tcp"]["backlog"])),
        }
        if is_real:
            # It sets up its own sockets.
            sysctls["ipv4/tcp_congestion_control"] = use.congestion
        network.set_sysctls(node, sysctls, f"{key}answers.backlog")

    def _connect(
        self, paths: _Paths, tcp: int, server: int | None, keys: tuple[str, str, str]
    ) -> None:
        """Prepares both ends for connections with these TCP settings."""
        use = self._network.use(tcp, keys[0])
        for node in (paths[0]["from"], paths[0]["to"]):
            self._network.hold(node, use, keys[0])
        self._address(paths, (tcp, server), use.metrics, keys)

    def _address(
        self,
        paths: _Paths,
        use: _Use,
        metrics: Sequence[tuple[str, int]],
        keys: tuple[str, str, str],
    ) -> None:
        """Gives both ends addresses, and routes with these metrics.

        Args:
            paths: The paths there and back.
            use: The TCP settings and the server, as `narrows-live` looks addresses up.
            metrics: The metrics of the routes.
            keys: The start of the group's keys, and the keys that choose the paths.
        """
        network, (there, back) = self._network, paths
        turn = 0 if use[1] is None else self._turns[use[1]]
        flavour = network.flavour(tuple(metrics), keys[0], turn)
        network.route(there, flavour, keys[1])
        network.route(back, flavour, keys[2])
        for node in (there["from"], there["to"]):
            also = self._also.setdefault(node, {})
            if flavour:
                also[use] = network.address(node, flavour)
            else:
                self._own[node] = network.address(node, 0)
        if use[1] is not None:
            self.programs.answer_at(use[1], network.address(there["to"], flavour))

    def _place(self, server: int, nodes: set[int]) -> None:
        """Tells a server apart from others of its kind at its nodes, which use the same port."""
        if server in self._turns:
            return
        ((kind, _),) = self._network.plan["applications"][server]["kind"].items()
        turn = max(self._at_node.get((node, kind), 0) for node in nodes)
        self._turns[server] = turn
        self._at_node.update({(node, kind): turn + 1 for node in nodes})

    def _paths(self, settings: Plan) -> _Paths:
        paths = self._network.plan["paths"]
        return paths[settings["there"]], paths[settings["back"]]

    def _application(self, number: int) -> Plan:
        ((_, settings),) = self._network.plan["applications"][number]["kind"].items()
        found: Plan = settings
        return found

    def _count(self, what: str, more: int, key: str, most: int | None = None) -> None:
        """Counts connections and the like, and refuses too many."""
        self._counts[what] = self._counts.get(what, 0) + more
        most = _MOST[what] if most is None else most
        if self._counts[what] > most:
            self._network.refuse(key, f"more than {most} in all groups together", FEWER)
