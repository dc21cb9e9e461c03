"""The job's part on zone transfers: secondaries that fetch a zone from a DNS server."""

from __future__ import annotations

from typing import Any

from narrows.backends.kernel.design.dns import PORT, DnsDesign, options
from narrows.backends.kernel.design.network import PS, Network, Plan

MOST_SECONDARIES = 1000

_KEYS = {"server", "secondaries", "tcp", "at", "spread", "query", "zone", "message"}


class TransferDesign:
    """Groups of secondaries."""

    def __init__(self, network: Network, dns: DnsDesign) -> None:
        self.jobs: list[dict[str, Any]] = []
        self._network = network
        self._dns = dns

    def add(self, name: str, told: Plan) -> None:
        """A group of the plan."""
        network, key = self._network, f"traffic.{name}."
        network.unknown(key, told, _KEYS)
        if len(told["secondaries"]) > MOST_SECONDARIES:
            network.refuse(f"{key}secondaries", f"more than {MOST_SECONDARIES}")
        paths = network.plan["paths"]
        ways = [(paths[each["there"]], paths[each["back"]]) for each in told["secondaries"]]
        use = network.use(told["tcp"], key)
        for there, _ in ways:
            network.hold(there["from"], use, key)
        found = self._dns.zone(told, ways, use, key)
        if found is None:
            return
        zone, ends = found
        self.jobs.append(
            {
                "group": name,
                "goodput_s": network.goodput_s,
                "server": network.spaces[ways[0][0]["to"]],
                "server_address": ends[0]["server_address"],
                "port": PORT,
                **options(use),
                "query": zone["query"],
                "mark": zone["mark"],
                "messages": -(-zone["zone"] // zone["message"]),
                "at_s": [at / PS for at in told["at"]],
                "spread_s": told["spread"] / PS,
                "secondaries": [
                    {
                        "name": network.nodes[there["from"]],
                        "namespace": network.spaces[there["from"]],
                        "address": end["client_address"],
                    }
                    for (there, _), end in zip(ways, ends, strict=True)
                ],
            }
        )
