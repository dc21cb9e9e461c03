"""DNS over QUIC (RFC 9250, RFC 9000): what both ends of a group do.

The handshake is TLS's (`dns_tls`); `crates/sim/src/transport/quic` says what is modelled.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveSpan, Size, Span
from narrows.scenario.tcp import Switch

__all__ = ["Quic"]

_MS = 10**9
_LONGEST_DELAY = 2**14 * _MS - 1
_ID_BYTES = 8
"""What programs mostly take; RFC 9000, 17.2, allows up to 20."""
_PARAMETERS_BYTES = 60
"""Transport parameters with the usual limits (RFC 9000, 18.2)."""


class Quic(Table):
    """How both ends speak QUIC (RFC 9000)."""

    payload: Annotated[Size, Field(ge=1200, le=65_507)] = 1200
    """The longest UDP payload, 1200 B to 65507 B, as if path MTU discovery had found it (RFC 9000,
    14.2). No packet is cut; what the first link does not take is never sent."""
    congestion: Literal["new-reno", "cubic"] = "new-reno"
    """Congestion control: RFC 9002, section 7, or RFC 9438."""
    initial_window: Annotated[int, Field(strict=True, ge=1, le=1000)] = 10
    """Datagrams of the first congestion window; ten of them are at most 14720 B (RFC 9002, 7.2)."""
    ack_every: Annotated[int, Field(strict=True, ge=1, le=255)] = 2
    """Packets that are acknowledged together (RFC 9000, 13.2.2)."""
    max_ack_delay: Annotated[Span, Field(le=_LONGEST_DELAY)] = 25 * _MS
    """When a packet is acknowledged at the latest (RFC 9000, 18.2)."""
    idle_timeout: PositiveSpan = 30_000 * _MS
    """A silent connection is over after this time (RFC 9000, 10.1)."""
    ecn: Switch = False
    """Packets say that they understand marks, and acknowledgements count them (RFC 9000, 13.4)."""

    def plan(self) -> dict[str, Any]:
        """The plan's form."""
        return self.model_dump() | {"id": _ID_BYTES, "parameters": _PARAMETERS_BYTES}
