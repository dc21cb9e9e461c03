"""The job's part on connections that send without end, grouped by their sockets' settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows.backends.kernel.design.network import (
    FEWER,
    MOST_CONNECTIONS,
    PS,
    Network,
    Plan,
)

_BULK_KEYS = {"connections"}
_CONNECTION_KEYS = {"name", "there", "back", "tcp", "opener", "start", "stop"}
_BULK_PORT = 5001
_FIRST_PORT = 10_000


class BulkDesign:
    """Groups of connections, and their rows in the table `flows`."""

    def __init__(self, network: Network) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self._network = network
        self._ports: dict[str, int] = {}

    def add(self, name: str, told: Plan) -> None:
        """A group of the plan."""
        network = self._network
        network.unknown(f"traffic.{name}.", told, _BULK_KEYS)
        connections: Sequence[Plan] = told["connections"]
        if len(self.rows) + len(connections) > MOST_CONNECTIONS:
            why = f"more than {MOST_CONNECTIONS} in all groups together"
            network.refuse(f"traffic.{name}.connections", why, FEWER)
            return
        groups: dict[tuple[Any, ...], dict[str, Any]] = {}
        pairs: set[tuple[int, int]] = set()
        for connection in connections:
            network.unknown(f"traffic.{name}.", connection, _CONNECTION_KEYS)
            there, back = (network.plan["paths"][connection[key]] for key in ("there", "back"))
            use = network.use(connection["tcp"], f"traffic.{name}.")
            network.hold(there["from"], use, f"traffic.{name}.")
            network.hold(there["to"], use, f"traffic.{name}.")
            flavour = network.flavour(use.metrics, f"traffic.{name}.")
            network.route(there, flavour, f"traffic.{name}.route")
            network.route(back, flavour, f"traffic.{name}.route_back")
            backward = (there["to"], there["from"]) in pairs
            if not backward:
                pairs.add((there["from"], there["to"]))
            download = connection["opener"] == "receiver"
            opener = there["to"] if download else there["from"]
            acceptor = there["from"] if download else there["to"]
            address = network.address(opener, flavour)
            port = self._ports.get(address, _FIRST_PORT)
            self._ports[address] = port + 1
            same = (use.congestion, use.mss, use.nodelay, connection["stop"])
            if same not in groups:
                stop = connection["stop"]
                groups[same] = {
                    "group": name,
                    "goodput_s": network.goodput_s,
                    "samples_s": [at / PS for at in network.plan["flow_samples"]],
                    "port": _BULK_PORT + len(self.jobs) + len(groups),
                    "congestion": use.congestion,
                    "mss": use.mss,
                    "nodelay": use.nodelay,
                    "stop_s": None if stop is None else stop / PS,
                    "flows": [],
                }
            groups[same]["flows"].append(
                {
                    "flow": len(self.rows),
                    "opener": network.spaces[opener],
                    "opener_address": address,
                    "opener_port": port,
                    "acceptor": network.spaces[acceptor],
                    "acceptor_address": network.address(acceptor, flavour),
                    "download": download,
                    "backward": backward,
                    "start_s": connection["start"] / PS,
                }
            )
            self.rows.append(
                {
                    "name": connection["name"],
                    "group": name,
                    "sender": network.nodes[there["from"]],
                    "receiver": network.nodes[there["to"]],
                }
            )
        self.jobs.extend(groups.values())
