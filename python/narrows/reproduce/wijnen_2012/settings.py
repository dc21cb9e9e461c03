"""The settings of a cell: server, load, way of asking. All are text, as in other choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

RTTS_MS = (2, 10, 16, 20, 30, 40, 60, 80, 100, 120, 160, 200, 240, 300)
"""Round trips of the fourteen vantage points: those of the reference measurements."""

CROWD = "10.9.1.1"
"""The address of the other clients."""

CROWD_RTT_MS = 2.0
"""The round trip of the other clients, in ms."""


@dataclass(frozen=True)
class Settings:
    """One experiment."""

    server: str = "old"
    """`old` for the emulated server, otherwise a program of `narrows.testbed.SERVERS`."""
    writing: str = "two"
    slots: int = 100
    """The most connections at once: the emulated server's limit, or NSD's `tcp-count`."""
    zone: str = "today"
    """`2012` for real servers with the root zone of that year."""
    backlog: int = 5
    tcp_delay_ms: float = 0.0
    tcp_rtt_factor: float = 1.0
    """TCP's round trip in units of UDP's, if another machine answers TCP."""
    late_acknowledgements: bool = False
    edns: int = 4096
    """The UDP payload that queries offer, in bytes; 0: no EDNS."""
    clients: int = 0
    """The number of other clients."""
    hold_s: float = 0.2
    think_s: float = 2.0
    rounds: int = 6
    """The number of pairs of each vantage point."""
    interval_s: float = 0.0
    """Seconds from round to round, over which the vantage points' turns are spread."""
    timeout_s: float = 5.0

    @classmethod
    def read(cls, text: Mapping[str, str]) -> Settings:
        """Settings from texts by name.

        Raises:
            ValueError: A name is unknown, or a value is invalid.
        """
        known = {field.name: field.type for field in fields(cls)}
        values: dict[str, object] = {}
        for name, value in text.items():
            if name not in known:
                raise ValueError(f"the experiment has no setting {name}")
            kind = known[name]
            if kind == "bool":
                values[name] = value == "true"
            else:
                values[name] = {"int": int, "float": float}.get(str(kind), str)(value)
        return cls(**values)  # type: ignore[arg-type]


def address(rtt_ms: int) -> str:
    """The address of the vantage point at this distance."""
    return f"10.9.0.{rtt_ms // 2}"
