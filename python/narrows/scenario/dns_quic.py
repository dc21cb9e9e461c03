"""DNS over QUIC (RFC 9250, RFC 9000): what both ends of a group do.

The handshake is TLS's (`dns_tls`); `crates/transport/src/quic` says what is modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows import _core, dns_profiles
from narrows.scenario.amounts import MILLISECOND
from narrows.scenario.declared import DeclaredTable, usual
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, rule

if TYPE_CHECKING:
    from narrows.dns_profiles import ClientQuic, ClientTls, ServerQuic, ServerTls

_ELSEWHERE = ("id", "parameters", "waits", "extras")
"""Settings that come from the profiles of programs; the declared defaults are the usual ones."""
_USUAL = usual("Quic")


class Quic(DeclaredTable, declares="Quic", without=_ELSEWHERE):
    """How both ends speak QUIC (RFC 9000)."""

    @property
    def wants_ecn(self) -> bool:
        """Whether packets are ECN-capable."""
        return bool(self.ecn) or self.congestion in _core.tcp_marked_controls()

    @rule
    def _marks_can_be_counted(self) -> Faults:
        if self.wants_ecn and "ecn" in self.model_fields_set and not self.ecn:
            yield refuse(
                f"{self.congestion} needs ECN-capable packets",
                "leave ecn out, or use another congestion control",
                "ecn",
            )

    @rule
    def _slow_start_is_possible(self) -> Faults:
        if self.slow_start != "standard" and self.congestion not in ("new-reno", "cubic"):
            yield refuse(
                f"{self.slow_start} goes with congestion new-reno or cubic, not {self.congestion}",
                "leave slow_start out, or use another congestion control",
                "slow_start",
            )

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
        if isinstance(profile, dns_profiles.ClientQuic):
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
    return dns_profiles.ClientTls(
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
    return dns_profiles.ServerTls(
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
