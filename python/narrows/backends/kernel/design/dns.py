"""The job's part on DNS: workers, and servers that answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrows.backends.kernel.design.exchanges import Exchanges, Names
from narrows.backends.kernel.design.network import PS, Network, Plan
from narrows.backends.kernel.design.tls import TLS_PORT, TlsDesign
from narrows.backends.kernel.inside.agent.dns_messages import transfer_query
from narrows.backends.kernel.software import Chosen, settings
from narrows.backends.kernel.tcp_settings import TcpUse
from narrows.scenario.dns_messages import BELOW_DNS

MOST_WORKERS = 5000
# Queries a second that one of the agent's processes can begin or answer.
MOST_ARRIVALS = 5000
PORT = 53

_CLIENT_KEYS = {
    *("server", "there", "back", "workers", "start", "spread", "warm_up", "queries"),
    *("arrivals", "think_mean", "sizes", "gives_up", "udp", "tcp"),
}
_USE_KEYS = {
    *("tcp", "reuse", "connect_timeout", "answer_timeout", "attempts", "udp_between"),
    *("refused_together", "length_apart"),
}
_SERVER_KEYS = {"service", "service_jitter_mean", "udp_payload", "tcp"}
_SERVICE_KEYS = {
    *("tcp", "backlog", "connections", "connections_per_client", "when_full", "idle_timeout"),
    *("first_query_timeout", "half_query_timeout", "busy_levels", "queries_per_connection"),
    *("on_query", "in_order", "length_apart", "extra_service", "half_open"),
    *("busy_counts_new", "busy_stays"),
}
_COOKIES = {"never": "0", "when-full": "1", "always": "2"}
_TAKES_ALL = 65_507
_STATELESS = "narrows-gateway needs eBPF or its own address, which a run does not have"
_SOMAXCONN = 4096


class DnsDesign:
    """Groups of workers, and the servers that they ask."""

    def __init__(self, network: Network, software: Mapping[str, Chosen]) -> None:
        self.jobs: list[dict[str, Any]] = []
        # By the number of the application in the plan.
        self._servers: dict[int, dict[str, Any]] = {}
        self._names: dict[int, Names] = {}
        # The number of servers that a node has so far.
        self._at_node: dict[int, int] = {}
        self._network = network
        self._tls = TlsDesign(network)
        self._software = software

    @property
    def servers(self) -> list[dict[str, Any]]:
        """The servers, each with everything that its clients request."""
        return list(self._servers.values())

    def add(self, name: str, told: Plan) -> None:
        """A group of the plan."""
        network, key = self._network, f"dns.{name}."
        if told["workers"] + sum(group["workers"] for group in self.jobs) > MOST_WORKERS:
            places = "workers" if told["arrivals"] is None else "arrivals.outstanding"
            network.refuse(f"{key}{places}", f"more than {MOST_WORKERS} in all")
        network.unknown(key, told, _CLIENT_KEYS)
        if told["arrivals"] is not None and told["arrivals"]["interval"] * MOST_ARRIVALS < PS:
            network.refuse(f"{key}arrivals.per_second", f"more than {MOST_ARRIVALS}")
        tls = None if told["tcp"] is None else told["tcp"]["tls"]
        if tls is not None and (tls["https"] is not None or tls["quic"] is not None):
            what = "HTTPS" if tls["quic"] is None else "QUIC"
            why = f"the agent has only Python's standard library, which has no {what}"
            network.refuse(f"{key}transport", why, "udp, tcp or tls")
            return
        there, back = (network.plan["paths"][told[way]] for way in ("there", "back"))
        payload = _TAKES_ALL if told["udp"] is None else told["udp"]["payload"]
        server = self._server(told["server"], there["to"])
        exchanges = self._exchanges(name, told, payload, is_real=server["software"] is not None)
        if exchanges is None:
            return
        short = self._names[told["server"]].mark(exchanges.rows)
        if short is not None:
            network.refuse(f"{key}messages", f"queries of {short} B are too short to distinguish")
        server["exchanges"].extend(exchanges.rows)
        self.jobs.append(
            {
                "group": name,
                "client": network.spaces[there["from"]],
                "port": PORT if tls is None else TLS_PORT,
                "transport": "tcp" if tls is None else "tls",
                "workers": told["workers"],
                "warm_up": told["warm_up"],
                "queries": told["queries"],
                "arrivals": _arrivals(told["arrivals"]),
                "start_s": told["start"] / PS,
                "spread_s": told["spread"] / PS,
                "think_mean_s": told["think_mean"] / PS,
                "gives_up_s": _seconds(told["gives_up"]),
                "payload": payload,
                "exchanges": exchanges.rows,
                "in_turn": exchanges.in_turn,
                "mtu_there": network.plan["links"][there["links"][0]]["mtu"],
                "mtu_back": network.plan["links"][back["links"][0]]["mtu"],
                "udp": self._udp(told, (there, back), server, key),
                "tcp": self._tcp(told, (there, back), server, key),
            }
        )

    def zone(
        self, told: Plan, ways: Sequence[tuple[Plan, Plan]], use: TcpUse, key: str
    ) -> tuple[dict[str, Any], list[dict[str, str]]] | None:
        """A zone at a server, and the addresses of each secondary and the server; None if refused.

        Args:
            told: The plan's group of secondaries.
            ways: The paths of each secondary, there and back.
            use: How Linux sets the secondaries' TCP up.
            key: The prefix of the group's keys.
        """
        network, server = self._network, self._server(told["server"], ways[0][0]["to"])
        if server["software"] is not None:
            network.refuse(f"{key}zone", "a real server has only the zone of its queries")
            return None
        if server["tcp"] is None:
            network.refuse(f"{key}server", "it has no TCP")
            return None
        zone = {part: told[part] for part in ("query", "zone", "message")}
        zone["mark"] = str(len(server["zones"]) or "")
        try:
            transfer_query(zone["query"], zone["mark"])
        except ValueError as error:
            network.refuse(f"{key}query", str(error))
            return None
        server["zones"].append(zone)
        return zone, [self._ends(way, server, use.metrics, key) for way in ways]

    def target(
        self, number: int, there: Plan, queries: Plan | None, key: str
    ) -> tuple[str, dict[str, Any] | None] | None:
        """A server's address for a flood, and the exchange of its queries; None if refused.

        Args:
            number: The number of the server's application in the plan.
            there: The path to it.
            queries: The lengths of the flood's queries in the plan; None for a flood of SYNs.
            key: The prefix of the flood's keys.
        """
        network, server = self._network, self._server(number, there["to"])
        flavour = network.flavour((), key, server["turn"])
        network.route(there, flavour, f"{key}server")
        address = network.address(there["to"], flavour)
        if address not in server["addresses"]:
            server["addresses"].append(address)
        if queries is None:
            if server["tcp"] is not None and server["cookies"] != "never":
                asks = f"dns.{server['group']}.answers.syncookies"
                network.need(there["to"], "ipv4/tcp_syncookies", asks)
            return address, None
        sizes = {"drawn": {part: {"constant": queries[part]} for part in ("query", "reply")}}
        is_real = server["software"] is not None
        found = Exchanges(sizes, queries["payload"], key, is_real=is_real)
        for what, length in found.impossible():
            network.refuse(f"{key}{what}", f"no DNS {what} has {length} B")
            return None
        if self._names[number].mark(found.rows) is not None:
            network.refuse(f"{key}query", "it is too short to distinguish from others")
            return None
        server["exchanges"].extend(found.rows)
        return address, found.rows[0]

    def _exchanges(self, name: str, told: Plan, payload: int, *, is_real: bool) -> Exchanges | None:
        """The exchanges of the group; None if they were refused."""
        refuse, key = self._network.refuse, f"dns.{name}."
        fixed = all("constant" in form for form in told["sizes"].get("drawn", {"": ""}).values())
        try:
            seed = f"{self._network.plan['seed']} {name}"
            found = Exchanges(told["sizes"], payload, seed, is_real=is_real)
        except ValueError as error:
            refuse(f"{key}messages", str(error))
            return None
        if is_real and any(row["over_udp"] is not None for row in found.rows):
            why = "a real server itself decides what it leaves out over UDP"
            refuse(f"{key}messages", why, "give lengths")
            return None
        wrong = list(found.impossible())
        for what, length in wrong[:1]:
            why = (
                f"no DNS {what} has {length} B"
                if what == "query"
                else (
                    f"a reply of {length} B is neither its query nor 11 B longer than its question"
                )
            )
            if fixed:
                packet = length + BELOW_DNS
                refuse(f"{key}{what}_size", f"{why}, as an IP packet of {packet} B has")
            else:
                refuse(f"{key}messages", why)
        return None if wrong else found

    def _udp(
        self, told: Plan, ways: tuple[Plan, Plan], server: dict[str, Any], key: str
    ) -> dict[str, Any] | None:
        if told["udp"] is None:
            return None
        return {
            **self._ends(ways, server, (), key),
            "timeouts_s": [timeout / PS for timeout in told["udp"]["timeouts"]],
            "new_port": told["udp"]["new_port"],
            "tcp_if_truncated": told["udp"]["tcp_if_truncated"],
            "tcp_if_silent": told["udp"]["tcp_if_silent"],
        }

    def _tcp(
        self, told: Plan, ways: tuple[Plan, Plan], server: dict[str, Any], key: str
    ) -> dict[str, Any] | None:
        network, tcp = self._network, told["tcp"]
        if tcp is None:
            return None
        network.unknown(f"{key}transport.", tcp, {*_USE_KEYS, "tls"})
        use = network.use(tcp["tcp"], key)
        network.hold(ways[0]["from"], use, key)
        kept = None if tcp["reuse"] == "never" else tcp["reuse"]["kept"]
        attempts = dict(tcp["attempts"])
        attempts["timed-out"] = attempts.pop("silent")
        return {
            **self._ends(ways, server, use.metrics, key),
            **options(use),
            "reuse": kept
            and {
                "idle_s": _seconds(kept["idle_timeout"]),
                "queries": kept["queries"],
                "pipelined": kept["pipelined"],
                "shared": kept["shared"],
                "after_silence": kept["after_silence"],
            },
            "connect_timeout_s": _seconds(tcp["connect_timeout"]),
            "answer_timeout_s": _seconds(tcp["answer_timeout"]),
            "attempts": attempts,
            "udp_between": tcp["udp_between"],
            "refused_together": tcp["refused_together"],
            "length_apart": tcp["length_apart"],
            "tls": self._tls.client(tcp["tls"], key, fast_open=use.fast_open),
        }

    def _ends(
        self,
        ways: tuple[Plan, Plan],
        server: dict[str, Any],
        metrics: tuple[tuple[str, int], ...],
        key: str,
    ) -> dict[str, str]:
        """Addresses of both ends; the routes between them have these metrics."""
        network, (there, back) = self._network, ways
        flavour = network.flavour(metrics, key, server["turn"])
        network.route(there, flavour, f"{key}route")
        network.route(back, flavour, f"{key}route_back")
        address = network.address(there["to"], flavour)
        if address not in server["addresses"]:
            server["addresses"].append(address)
        return {
            "client_address": network.address(there["from"], flavour),
            "server_address": address,
        }

    def _server(self, number: int, node: int) -> dict[str, Any]:
        """A server, which other groups may ask too."""
        if number in self._servers:
            return self._servers[number]
        network = self._network
        application = network.plan["applications"][number]
        # A server is named after its own group, even if another group asks it first.
        name = application["name"]
        key = f"dns.{name}.answers."
        ((_, told),) = application["kind"].items()
        network.unknown(key, told, _SERVER_KEYS)
        turn = self._at_node.get(node, 0)
        self._at_node[node] = turn + 1
        self._names[number] = Names()
        chosen = self._software.get(name)
        service = None
        if told["tcp"] is not None:
            service = self._service(name, told["tcp"], node, is_real=chosen is not None)
        self._servers[number] = {
            "group": name,
            "software": None if chosen is None else self._program(key, chosen),
            "namespace": network.spaces[node],
            "addresses": [],
            # If a node has several servers, each has its own address.
            "turn": turn,
            "port": PORT,
            "exchanges": [],
            "zones": [],
            "udp_payload": told["udp_payload"],
            "clients": None,
            "cookies": told["tcp"] and told["tcp"]["half_open"]["cookies"],
            "service_s": told["service"] / PS,
            "service_jitter_s": told["service_jitter_mean"] / PS,
            "tcp": service,
        }
        return self._servers[number]

    def _program(self, key: str, chosen: Chosen) -> dict[str, Any]:
        """A real server: its program and settings."""
        for refused in chosen.refused:
            start = key.removesuffix("answers.")
            self._network.refuse(f"{start}{refused}", f"{chosen.name} decides that itself")
        return {
            "name": chosen.name,
            "settings": settings(chosen, self._network.refuser(key)),
            "threads": chosen.threads,
        }

    def _service(self, name: str, told: Plan, node: int, *, is_real: bool) -> dict[str, Any]:
        network, key = self._network, f"dns.{name}.answers."
        network.unknown(key, told, {*_SERVICE_KEYS, "tls", "stateless"})
        if told["stateless"]:
            network.refuse(f"{key}stateless", _STATELESS, "leave it out")
        use = network.use(told["tcp"], f"dns.{name}.")
        network.hold(node, use, f"dns.{name}.")
        half_open = told["half_open"]
        sysctls = {
            "ipv4/tcp_max_syn_backlog": str(half_open["max_syn_backlog"]),
            "ipv4/tcp_synack_retries": str(half_open["synack_retries"]),
            "ipv4/tcp_syncookies": _COOKIES[half_open["cookies"]],
            # The longest backlog that listen(2) takes.
            "core/somaxconn": str(max(_SOMAXCONN, told["backlog"])),
        }
        if is_real:
            # A real server sets up its own sockets.
            sysctls["ipv4/tcp_congestion_control"] = use.congestion
        network.set_sysctls(node, sysctls, f"{key}backlog")
        return {
            **options(use),
            "backlog": told["backlog"],
            "connections": told["connections"],
            "connections_per_client": told["connections_per_client"],
            "when_full": told["when_full"],
            "idle_s": told["idle_timeout"] / PS,
            "first_query_s": told["first_query_timeout"] / PS,
            "half_query_s": _seconds(told["half_query_timeout"]),
            "busy_levels": [[share, span / PS] for share, span in told["busy_levels"]],
            "busy_counts_new": told["busy_counts_new"],
            "busy_stays": told["busy_stays"],
            "queries_per_connection": told["queries_per_connection"],
            "on_query": told["on_query"],
            "in_order": told["in_order"],
            "length_apart": told["length_apart"],
            "extra_service_s": told["extra_service"] / PS,
            "tls": self._tls.server(told["tls"], key, told["extra_service"], is_real=is_real),
        }


def options(use: TcpUse) -> dict[str, Any]:
    """The options that sockets get."""
    return {
        "congestion": use.congestion,
        "mss": use.mss,
        "nodelay": use.nodelay,
        "fast_open": use.fast_open,
    }


def _arrivals(told: Plan | None) -> dict[str, Any] | None:
    if told is None:
        return None
    return {"interval_s": told["interval"] / PS, "spacing": told["spacing"]}


def _seconds(picoseconds: int | None) -> float | None:
    return None if picoseconds is None else picoseconds / PS
