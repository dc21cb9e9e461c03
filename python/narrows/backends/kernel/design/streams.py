"""The job's part on datagrams: streams at a rate, and probes."""

from __future__ import annotations

from typing import Any

from narrows.backends.kernel.design.draws import seconds
from narrows.backends.kernel.design.network import PS, Network, Plan
from narrows.backends.kernel.inside.agent.datagrams import LEAST_BYTES

MOST_STREAMS = 1000

_STREAM_KEYS = {
    *("streams", "packet_bytes", "interval", "spacing", "probes", "rate", "packets", "period"),
    *("on_off", "repeat_after"),
}
_DATAGRAM_PORT = 7001


class StreamDesign:
    """Groups of streams or probers."""

    def __init__(self, network: Network) -> None:
        self.jobs: list[dict[str, Any]] = []
        self._network = network

    def add(self, name: str, kind: str, told: Plan) -> None:
        """A group of the plan."""
        network = self._network
        key = f"traffic.{name}."
        network.unknown(key, told, _STREAM_KEYS)
        is_ping, is_trace = kind == "ping", kind == "trace"
        listed = None
        if is_trace:
            listed = [[after / PS, length] for after, length in told["packets"]]
        least = min(length for _, length in listed) if listed else told["packet_bytes"]
        if least < LEAST_BYTES:
            entry = "file" if is_trace else "packet"
            network.refuse(f"{key}{entry}", f"a datagram needs {LEAST_BYTES} B here")
        if len(told["streams"]) + sum(len(each["streams"]) for each in self.jobs) > (MOST_STREAMS):
            network.refuse(f"{key}pairs", f"more than {MOST_STREAMS} streams in all")
        streams = []
        for stream in told["streams"]:
            network.unknown(key, stream, {"name", "there", "back", "start", "stop"})
            there, back = (network.plan["paths"][stream[way]] for way in ("there", "back"))
            streams.append(network.stream(stream, there, f"{key}route"))
            network.route(back, 0, f"{key}route_back")
        on_off = told.get("on_off")
        packet = 0 if is_trace else told["packet_bytes"]
        gap_s = None
        if not is_trace:
            gap_s = told["interval"] / PS if is_ping else 8 * packet / told["rate"]
        self.jobs.append(
            {
                "group": name,
                "answers": is_ping,
                "port": _DATAGRAM_PORT + len(self.jobs),
                "packet_bytes": packet,
                "gap_s": gap_s,
                "poisson": told.get("spacing") == "poisson",
                "on_off": on_off and {key: seconds(on_off[key]) for key in ("on", "off")},
                "listed": listed,
                "repeat_s": told["repeat_after"] / PS if told.get("repeat_after") else None,
                "packets": None if is_trace else told["probes" if is_ping else "packets"],
                "period_s": None if is_ping else told["period"] / PS,
                "streams": streams,
            }
        )
