"""The job's part on telephone calls."""

from __future__ import annotations

import json
from typing import Any

from narrows import _core
from narrows.backends.kernel.design.draws import seconds
from narrows.backends.kernel.design.network import PS, Network, Plan

MOST_CALLS = 500

_KEYS = {"calls", "codec", "packet_time", "talk", "playout"}
_PORT = 5004
"""RTP's port (RFC 3551, 8); further groups use the ports above it."""


class CallDesign:
    """Groups of calls."""

    def __init__(self, network: Network) -> None:
        self.jobs: list[dict[str, Any]] = []
        self._network = network

    def add(self, name: str, told: Plan) -> None:
        """A group of the plan."""
        network, key = self._network, f"traffic.{name}."
        network.unknown(key, told, _KEYS)
        if len(told["calls"]) + sum(len(each["streams"]) // 2 for each in self.jobs) > MOST_CALLS:
            network.refuse(f"{key}calls", f"more than {MOST_CALLS} in all")
        streams = []
        for call in told["calls"]:
            network.unknown(key, call, {"name", "there", "back", "start", "stop"})
            ways = [network.plan["paths"][call[way]] for way in ("there", "back")]
            for way, entry in zip(ways, ("route", "route_back"), strict=True):
                streams.append(network.stream(call, way, f"{key}{entry}"))
        talk = told["talk"]
        settings = {**told, "calls": []}
        self.jobs.append(
            {
                "group": name,
                "answers": False,
                "port": _PORT + len(self.jobs),
                "packet_bytes": _core.call_packet_bytes(json.dumps(settings)),
                "packet_s": told["packet_time"] / PS,
                "packets": None,
                "talk": talk and {part: seconds(talk[part]) for part in ("spurt", "pause")},
                "streams": streams,
                # The simulator's listener decides how much of the call is heard.
                "plan": settings,
            }
        )
