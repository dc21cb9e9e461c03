"""The job's part on floods: SYNs or DNS queries from forged addresses."""

from __future__ import annotations

from typing import Any

from narrows.backends.kernel.design.dns import PORT, DnsDesign
from narrows.backends.kernel.design.network import PS, Network, Plan

MOST_PER_SECOND = 20_000
"""Packets a second that the agent's one process for a flood can send."""

_KEYS = {
    *("server", "there", "back", "of", "interval", "spacing", "addresses", "start", "stop"),
    "period",
}


class FloodDesign:
    """Floods, each with its own network of addresses."""

    def __init__(self, network: Network, dns: DnsDesign) -> None:
        self.jobs: list[dict[str, Any]] = []
        self._network = network
        self._dns = dns

    def add(self, name: str, told: Plan) -> None:
        """A flood of the plan."""
        network, key = self._network, f"traffic.{name}."
        network.unknown(key, told, _KEYS)
        if told["interval"] * MOST_PER_SECOND < PS:
            network.refuse(f"{key}per_second", f"more than {MOST_PER_SECOND} a second")
        there, back = (network.plan["paths"][told[way]] for way in ("there", "back"))
        queries = None if told["of"] == "syns" else told["of"]["queries"]
        found = self._dns.target(told["server"], there, queries, key)
        forged = network.forge(back, key)
        if found is None or forged is None:
            return
        self.jobs.append(
            {
                "group": name,
                "source": network.spaces[there["from"]],
                "server": network.spaces[there["to"]],
                "server_address": found[0],
                "query": found[1],
                "port": PORT,
                "forged": forged,
                "addresses": told["addresses"],
                "interval_s": told["interval"] / PS,
                "poisson": told["spacing"] == "poisson",
                "start_s": told["start"] / PS,
                "stop_s": None if told["stop"] is None else told["stop"] / PS,
                "period_s": told["period"] / PS,
            }
        )
