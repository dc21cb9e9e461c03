"""The job's part on clients that ask servers over TCP: `incast` and `page`."""

from __future__ import annotations

from typing import Any

from narrows.backends.kernel.design.draws import seconds
from narrows.backends.kernel.design.network import MOST_CONNECTIONS, PS, Network, Plan

_INCAST_KEYS = {
    *("responder", "servers", "tcp", "start", "rounds", "pause", "request", "block", "kept"),
}
_PAGE_KEYS = {
    *("responder", "servers", "tcp", "browsers", "start", "spread", "loads", "pause"),
    *("connections", "streams", "request", "objects"),
}
_OBJECT_KEYS = {"name", "server", "bytes", "after", "wait"}
_RESPONDER_KEYS = {"tcp", "service"}
_PORT = 80
_OTHER_PORTS = 8080


class AskingDesign:
    """Groups of clients with their servers."""

    def __init__(self, network: Network) -> None:
        self.jobs: list[dict[str, Any]] = []
        self._network = network
        self._listening: set[tuple[str, int]] = set()

    def add(self, name: str, kind: str, told: Plan) -> None:
        """A group of the plan."""
        network, key = self._network, f"traffic.{name}."
        ((_, responder),) = network.plan["applications"][told["responder"]]["kind"].items()
        secure = told.get("secure")
        if secure:
            why = "not supported yet"
            if secure.get("quic"):
                why = "the agent has only Python's standard library, which has no QUIC"
            network.refuse(f"{key}transport", why)
            return
        is_page = kind == "page"
        network.unknown(key, told, _PAGE_KEYS if is_page else _INCAST_KEYS)
        network.unknown(key, responder, _RESPONDER_KEYS)
        if _connections(told, is_page=is_page) > MOST_CONNECTIONS:
            network.refuse(f"{key}{'browsers' if is_page else 'connections'}", _TOO_MANY)
        use = network.use(told["tcp"], key)
        if responder["tcp"] != told["tcp"] and network.use(responder["tcp"], key) != use:
            network.refuse(f"{key}tcp", "both ends need the same settings")
        flavour = network.flavour(use.metrics, key)
        servers = []
        client = network.plan["paths"][told["servers"][0]["there"]]["from"]
        for way in told["servers"]:
            there, back = (network.plan["paths"][way[part]] for part in ("there", "back"))
            network.route(there, flavour, f"{key}server")
            network.route(back, flavour, f"{key}server")
            for node in (there["from"], there["to"]):
                network.hold(node, use, key)
            servers.append(
                {
                    "namespace": network.spaces[there["to"]],
                    "address": network.address(there["to"], flavour),
                }
            )
        self.jobs.append(
            {
                "group": name,
                "kind": kind,
                "goodput_s": network.goodput_s,
                "client": network.spaces[client],
                "client_address": network.address(client, flavour),
                "servers": servers,
                "port": self._port({each["address"] for each in servers}),
                "congestion": use.congestion,
                "mss": use.mss,
                "nodelay": use.nodelay,
                "start_s": told["start"] / PS,
                "request": told["request"],
                "service": seconds(responder["service"]),
                "pause": seconds(told["pause"]),
                **(self._page(key, told) if is_page else _incast(told)),
            }
        )

    def _page(self, key: str, told: Plan) -> dict[str, Any]:
        for each in told["objects"]:
            self._network.unknown(f"{key}objects.", each, _OBJECT_KEYS)
        return {
            **{part: told[part] for part in ("browsers", "loads", "connections", "streams")},
            "spread_s": told["spread"] / PS,
            "objects": [
                {
                    **{part: each[part] for part in ("name", "server", "bytes", "after")},
                    "wait_s": each["wait"] / PS,
                }
                for each in told["objects"]
            ],
        }

    def _port(self, addresses: set[str]) -> int:
        """HTTP's port, or another one if an earlier group uses it at the same server."""
        port = _PORT
        while any((address, port) in self._listening for address in addresses):
            port = max(port + 1, _OTHER_PORTS)
        self._listening.update((address, port) for address in addresses)
        return port


_TOO_MANY = f"more than {MOST_CONNECTIONS} connections at a time"


def _incast(told: Plan) -> dict[str, Any]:
    return {part: told[part] for part in ("rounds", "block", "kept")}


def _connections(told: Plan, *, is_page: bool) -> int:
    count = len(told["servers"])
    return count * told["browsers"] * told["connections"] if is_page else count
