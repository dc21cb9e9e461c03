"""The job's part on DNS: workers, and servers that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narrows.backends.kernel.design.exchanges import Names, exchanges_of
from narrows.backends.kernel.design.network import FEWER, PS, Network, Plan
from narrows.backends.kernel.design.programs import PORT, TAKES_ALL, program
from narrows.backends.kernel.design.tls import TLS_PORT, TlsDesign
from narrows.backends.kernel.software import Chosen
from narrows.backends.kernel.tcp_settings import TcpUse

MOST_WORKERS = 5000
# Queries a second that one of the agent's processes can begin or answer.
MOST_ARRIVALS = 5000

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
            why = f"more than {MOST_WORKERS} in all groups together"
            network.refuse(f"{key}{places}", why, FEWER)
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
        payload = TAKES_ALL if told["udp"] is None else told["udp"]["payload"]
        server = self._server(told["server"], there["to"])
        is_real = server["software"] is not None
        exchanges = exchanges_of(network, name, told, payload, is_real=is_real)
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
        kept = None if tcp["reuse"] == "never" else tcp["reuse"]["persistent"]
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
            "software": None if chosen is None else program(network, key, chosen),
            "namespace": network.spaces[node],
            "addresses": [],
            # If a node has several servers, each has its own address.
            "turn": turn,
            "port": PORT,
            "exchanges": [],
            "udp_payload": told["udp_payload"],
            "clients": None,
            "service_s": told["service"] / PS,
            "service_jitter_s": told["service_jitter_mean"] / PS,
            "tcp": service,
        }
        return self._servers[number]

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
