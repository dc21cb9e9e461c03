"""DNS over QUIC (RFC 9250, RFC 9000): what both ends of a group do.

The handshake is TLS's (`dns_tls`); `crates/transport/src/quic` says what is modelled.
"""

from __future__ import annotations

from typing import Any

from narrows.dns_profiles import ClientQuic, ClientTls, ServerQuic, ServerTls
from narrows.scenario.amounts import MILLISECOND
from narrows.scenario.declared import TABLES, DeclaredTable
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, rule

_ELSEWHERE = ("id", "parameters", "waits", "extras")
"""Settings that come from the profiles of programs; the declared defaults are the usual ones."""
_USUAL = {key["name"]: key["default"] for key in TABLES["Quic"]["keys"]}


class Quic(DeclaredTable, declares="Quic", without=_ELSEWHERE):
    """How both ends speak QUIC (RFC 9000)."""

    @rule
    def _search_goes_up(self) -> Faults:
        if self.search_to is not None and self.search_to <= self.payload:
            said = f'must be above the payload, "{self.payload!s}"'
            yield refuse(said, "raise it, or leave it out", "search_to")

    def plan(self, profile: ClientQuic | ServerQuic | None = None) -> dict[str, Any]:
        """The plan's form; `profile` provides missing keys."""
        plan = self.plain() | {key: _USUAL[key] for key in _ELSEWHERE}
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
