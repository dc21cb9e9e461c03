"""How DNS clients use TCP connections, TLS and QUIC (RFC 7766, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from narrows import dns_profiles
from narrows.dns_profiles import ClientTls
from narrows.scenario.base import Table
from narrows.scenario.dns_quic import Quic, client_handshake
from narrows.scenario.dns_tls import TlsUse
from narrows.scenario.quantities import Count, PositiveSpan, Span, Switch, refuse, span_of
from narrows.scenario.rules import Faults

__all__ = ["OF_KEPT", "ClientName", "ConnectionUse", "Tries", "captured"]

# A profile is a file (narrows.dns_profiles), and needs no line here.
if TYPE_CHECKING:
    ClientName = str
else:
    ClientName = Literal[tuple(dns_profiles.clients())]

Few = Annotated[int, Field(strict=True, ge=1, le=255)]

OF_KEPT = ("idle_timeout", "queries", "pipelining", "shared")
"""Keys that only matter for connections with more than one query."""


def captured(profile: dns_profiles.Client | None, transport: str) -> ClientTls | None:
    """How a profile's client begins an encrypted connection; None if that was not captured."""
    if profile is None:
        return None
    if transport == "quic":
        return None if profile.quic is None else client_handshake(profile.quic)
    tls = profile.tls
    if transport == "https" and tls is not None and tls.https_preface_bytes is None:
        return None
    return tls


class Tries(Table):
    """Connections that are tried for a query, including the first, by how the last one failed."""

    refused: Few = 1
    """The SYN was answered with a reset."""
    closed: Few = 1
    """The server closed before it answered."""
    reset: Few = 1
    """The server reset the connection."""
    silent: Few = 1
    """Nothing came in time."""


class ConnectionUse(Table):
    """How clients use their connections (RFC 7766, section 6)."""

    reuse: Switch | None = None
    """Later queries use an open connection; otherwise each query has its own, which the client
    closes when it has the reply. By default the profile's, or false. With `reuse = false`,
    `idle_timeout`, `queries`, `pipelining` and `shared` have no effect."""
    idle_timeout: Span | None = None
    """The client closes a connection without queries after this time; by default the profile's, or
    never."""
    queries: Count | None = None
    """Queries after which the client closes a connection; by default the profile's, or no limit."""
    pipelining: Switch | None = None
    """Queries go out while others wait for their replies. By default the profile's, or false."""
    shared: Switch = False
    """All workers of the group use the same connections, as those of one resolver do; otherwise
    each worker keeps its own."""
    connect_timeout: PositiveSpan | None = None
    """A connection that is not open after this time is given up; by default the profile's, or as
    TCP decides."""
    answer_timeout: PositiveSpan | None = None
    """A query without a reply after this time is given up; by default the profile's, or never."""
    tries: Few | Tries | None = None
    """How many connections the client tries for a query: a number, or one for each kind of failure,
    `{ refused = 3, closed = 1, reset = 1, silent = 1 }`. By default the profile's, or 1."""
    udp_between: Switch | None = None
    """After a failed connection, the client asks over UDP again before it tries the next one. By
    default the profile's, or false. No effect if the client never asks over UDP."""
    writes: Literal["together", "apart"] = "together"
    """Whether the length and the query leave in one write, or in two."""
    fast_open: Switch | None = None
    """TCP Fast Open (RFC 7413): the first connection asks for a cookie, and the SYN of each later
    one carries its first query, if `answers.fast_open` allows it. By default the profile's for UDP
    and TCP, or false. No effect over QUIC."""
    tls: TlsUse | None = None
    """How clients speak TLS: as the transport itself, below HTTPS, or in QUIC."""

    def uses_fast_open(self, profile: dns_profiles.Client | None, transport: str) -> bool:
        """Whether SYNs ask for cookies and carry queries; `profile` provides missing keys."""
        if self.fast_open is not None:
            return self.fast_open and transport != "quic"
        # No client was seen to use Fast Open with TLS.
        return profile is not None and profile.fast_open and transport in ("udp", "tcp")

    def is_kept(self, profile: dns_profiles.Client | None) -> bool:
        """Whether later queries use an open connection; `profile` says so if `reuse` does not."""
        return self.reuse if self.reuse is not None else bool(profile and profile.reuse)

    def contradictions(self, profile: dns_profiles.Client | None) -> Faults:
        """What is wrong between its keys; `profile` provides missing keys."""
        # One key is enough to turn kept connections off, such as in a variant of a sweep.
        if self.reuse is False or self.is_kept(profile):
            return
        given = [key for key in OF_KEPT if getattr(self, key)]
        if given:
            first, *more = given
            also = f", and so do {', '.join(more)}" if more else ""
            yield refuse(
                f"needs connections that are used again{also}",
                f"set connections.reuse to true, or leave {'them' if more else 'it'} out",
                f"connections.{first}",
            )

    def plan(
        self, profile: dns_profiles.Client | None, tcp: int, transport: str, quic: Quic
    ) -> dict[str, Any]:
        """The plan's form.

        Args:
            profile: Provides missing keys.
            tcp: The index of the TCP settings.
            transport: The transport over which the client first asks.
            quic: How it speaks QUIC, if it does.
        """
        reuse: Any = "never"
        if self.is_kept(profile):
            idle: int | None = self.idle_timeout
            queries = self.queries
            pipelined = self.pipelining
            if profile is not None and profile.reuse:
                idle = span_of(profile.idle_timeout_s) if idle is None else idle
                queries = profile.queries_per_connection if queries is None else queries
                pipelined = profile.pipelining if pipelined is None else pipelined
            reuse = {
                "kept": {
                    "idle_timeout": idle,
                    "queries": queries,
                    # Over QUIC each query has a stream of its own (RFC 9250, 4.2).
                    "pipelined": bool(pipelined) or transport == "quic",
                    "shared": self.shared,
                    "after_silence": profile is not None and profile.tcp_after_silence,
                }
            }
        tls = None
        if transport in ("tls", "https", "quic"):
            over_quic = profile.quic if profile and transport == "quic" else None
            tls = (self.tls or TlsUse()).plan(captured(profile, transport), transport)
            tls["quic"] = quic.plan(over_quic) if transport == "quic" else None
        connect: int | None = self.connect_timeout
        answer: int | None = self.answer_timeout
        between = self.udp_between
        if profile is not None:
            connect = span_of(profile.tcp_connect_timeout_s) if connect is None else connect
            answer = span_of(profile.tcp_answer_timeout_s) if answer is None else answer
            between = profile.tcp_retries == "udp-first" if between is None else between
        return {
            "tcp": tcp,
            "reuse": reuse,
            "connect_timeout": connect,
            "answer_timeout": answer,
            "attempts": self._attempts(profile, transport),
            "udp_between": bool(between) and transport == "udp",
            "refused_together": self._refused_together(profile, transport),
            # A stream of QUIC has no segments of its own.
            "length_apart": self.writes == "apart" and transport != "quic",
            "tls": tls,
        }

    def _attempts(self, profile: dns_profiles.Client | None, transport: str) -> dict[str, int]:
        if isinstance(self.tries, int):
            return dict.fromkeys(("refused", "closed", "reset", "silent"), self.tries)
        if self.tries is not None:
            return self.tries.model_dump()
        if profile is None:
            return dict.fromkeys(("refused", "closed", "reset", "silent"), 1)
        refused = profile.tcp_attempts_refused
        if not self.uses_fast_open(profile, transport):
            refused //= profile.tcp_refused_together
        return {
            "refused": max(1, refused),
            "closed": max(1, profile.tcp_attempts_closed),
            "reset": max(1, profile.tcp_attempts_reset),
            "silent": max(1, profile.tcp_attempts_silent),
        }

    def _refused_together(self, profile: dns_profiles.Client | None, transport: str) -> int:
        # If there are two at once, the second is there because the first used Fast Open.
        if profile is None or not self.uses_fast_open(profile, transport):
            return 1
        return profile.tcp_refused_together
