"""What the agent is told of telephone calls."""

from __future__ import annotations

from typing import Any

from narrows.backends.kernel.design.draws import seconds
from narrows.backends.kernel.design.network import PS, Network, Plan

__all__ = ["CallDesign"]

MOST_CALLS = 500

_KEYS = {"calls", "codec", "packet_time", "talk", "playout"}
_PORT = 5004
"""RTP's (RFC 3551, 8), and those above it for further groups."""

_HEADERS = 20 + 8 + 12
"""IP, UDP, RTP."""

_BYTES_PER_S = {"g711": 8000, "g711-plc": 8000, "g729a": 1000}


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
                network.route(way, 0, f"{key}{entry}")
                streams.append(
                    {
                        "sender": network.spaces[way["from"]],
                        "sender_address": network.address(way["from"], 0),
                        "receiver": network.spaces[way["to"]],
                        "receiver_address": network.address(way["to"], 0),
                        "start_s": call["start"] / PS,
                        "stop_s": None if call["stop"] is None else call["stop"] / PS,
                    }
                )
        talk = told["talk"]
        packet_s = told["packet_time"] / PS
        self.jobs.append(
            {
                "group": name,
                "answers": False,
                "port": _PORT + len(self.jobs),
                "packet_bytes": _HEADERS + round(_BYTES_PER_S[told["codec"]] * packet_s),
                "packet_s": packet_s,
                "packets": None,
                "talk": talk and {part: seconds(talk[part]) for part in ("spurt", "pause")},
                "streams": streams,
                # What is heard of it, the simulator's listener says.
                "plan": {**told, "calls": []},
            }
        )
