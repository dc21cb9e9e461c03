"""DNS over QUIC (RFC 9250, RFC 9000): what both ends of a group do.

The handshake is TLS's (`dns_tls`); `crates/transport/src/quic` says what is modelled.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from narrows.dns_profiles import ClientQuic, ClientTls, ServerQuic, ServerTls
from narrows.scenario.amounts import MILLISECOND, DataSize, Duration
from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveSpan, Size, Span, Switch, refuse
from narrows.scenario.rules import Faults, rule

__all__ = ["Quic", "client_handshake", "server_handshake"]

_LONGEST_DELAY = 2**14 * MILLISECOND - 1
_ID_BYTES = 8
"""The length of connection IDs in most programs; RFC 9000, 17.2, allows up to 20."""
_PARAMETERS_BYTES = 60
"""The length of transport parameters with the usual limits (RFC 9000, 18.2)."""


class Quic(Table):
    """How both ends speak QUIC (RFC 9000)."""

    payload: Annotated[Size, Field(ge=1200, le=65_507)] = DataSize("1200 B")
    """The longest UDP payload, 1200 B to 65507 B, as if path MTU discovery had found it (RFC 9000,
    14.2). Packets are not fragmented: one that the first link does not take is never sent."""
    search_to: Annotated[Size, Field(ge=1201, le=65_507)] | None = None
    """After the handshake, both ends search for the longest payload that the path takes, up to this
    size (RFC 9000, 14.3). Without it, they do not search."""
    congestion: Literal["new-reno", "cubic"] = "new-reno"
    """Congestion control: RFC 9002, section 7, or RFC 9438."""
    initial_window: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None
    """Datagrams in the initial congestion window. By default ten, but no more than 14720 B or two
    datagrams, whichever is larger (RFC 9002, 7.2)."""
    ack_every: Annotated[int, Field(strict=True, ge=1, le=255)] = 2
    """Number of packets that are acknowledged together (RFC 9000, 13.2.2)."""
    max_ack_delay: Annotated[Span, Field(le=_LONGEST_DELAY)] = Duration("25 ms")
    """The longest delay of an acknowledgement (RFC 9000, 18.2)."""
    undecryptable_packets: Annotated[int, Field(strict=True, ge=0, le=255)] = 4
    """The most packets of each kind that an end keeps if they arrive before their keys (RFC 9001,
    5.7). This happens if they overtake another packet, or if that packet is lost. With 0, the end
    drops them."""
    idle_timeout: PositiveSpan = Duration("30 s")
    """A silent connection ends after this time (RFC 9000, 10.1)."""
    ecn: Switch = False
    """Packets are ECN-capable, and acknowledgements count the marks (RFC 9000, 13.4)."""

    @rule
    def _search_goes_up(self) -> Faults:
        if self.search_to is not None and self.search_to <= self.payload:
            said = f'must be above the payload, "{self.payload!s}"'
            yield refuse(said, "raise it, or leave it out", "search_to")

    def plan(self, profile: ClientQuic | ServerQuic | None = None) -> dict[str, Any]:
        """The plan's form; `profile` provides missing keys."""
        plan = self.model_dump() | {"id": _ID_BYTES, "parameters": _PARAMETERS_BYTES}
        if profile is None:
            return plan
        plan |= {"id": profile.id_bytes, "parameters": profile.parameters_bytes}
        if "payload" not in self.model_fields_set:
            plan["payload"] = profile.payload_bytes
            if self.search_to is not None and self.search_to <= profile.payload_bytes:
                # What its program sends at once is as long.
                plan["search_to"] = None
        if isinstance(profile, ClientQuic):
            return plan | {"waits": profile.waits}
        if "idle_timeout" not in self.model_fields_set:
            plan["idle_timeout"] = round(profile.idle_timeout_s * 1000) * MILLISECOND
        return plan | {"extras": profile.extras_bytes}


_RECORD, _SESSION_ID, _PROTECTION = 5, 32, 22
_EXTENSION = 4


def client_handshake(profile: ClientQuic) -> ClientTls:
    """The handshake of a client, as it would be for TLS on TCP.

    On TCP, it would have a record and a session ID (RFC 8446, D.4), but no transport parameters
    (RFC 9001, 8.2).
    """
    parameters = _EXTENSION + profile.parameters_bytes
    return ClientTls(
        hello_bytes=profile.hello_bytes - parameters + _RECORD + _SESSION_ID,
        pads_hello=False,
        key_share_bytes=profile.key_share_bytes,
        alpn=True,
        apart=False,
        nagle=False,
        padding_bytes=profile.padding_bytes,
        resumption=profile.resumption,
        close_notify=False,
    )


def server_handshake(profile: ServerQuic) -> ServerTls:
    """The same for a server; on TCP, tickets would have a protected record (RFC 8446, 5.2)."""
    return ServerTls(
        hash_bytes=profile.hash_bytes,
        groups_bytes=0,
        alpn=True,
        ticket_bytes=profile.ticket_bytes + _PROTECTION,
        tickets=profile.tickets,
        tickets_resumed=profile.tickets,
        tickets_apart=True,
        padding_bytes=profile.padding_bytes,
        early_data=profile.early_data,
        close_notify=False,
    )
