"""How DNS clients use TCP connections, TLS and QUIC (RFC 7766, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from narrows import dns_profiles
from narrows.scenario.base import Table
from narrows.scenario.declared import Declared, DeclaredTable
from narrows.scenario.dns_quic import client_handshake
from narrows.scenario.quantities import PositiveSpan, Span, Switch, refuse, span_of
from narrows.scenario.rules import Faults
from narrows.scenario.tcp import Tcp

# A profile is a file (narrows.dns_profiles), and needs no line here.
if TYPE_CHECKING:
    from narrows.dns_profiles import ClientTls

    ClientName = str
else:
    ClientName = Literal[tuple(dns_profiles.clients())]

Few = Annotated[int, Declared("Attempts", "refused")]

_OF_KEPT = ("idle_timeout", "queries", "pipelining", "shared")
"""Keys that only matter for connections with more than one query."""


def captured(profile: dns_profiles.Client | None, transport: str) -> ClientTls | None:
    """How a profile's client begins an encrypted connection; None if that was not captured."""
    if profile is None:
        return None
    if transport == "http3":
        return None
    if transport == "quic":
        return None if profile.quic is None else client_handshake(profile.quic)
    tls = profile.tls
    if transport == "https" and tls is not None and tls.https_preface_bytes is None:
        return None
    return tls


class Tries(DeclaredTable, declares="Attempts"):
    """Connections that are tried for a query, including the first, by how the last one failed."""


class ConnectionUse(Table):
    """How clients use their connections (RFC 7766, section 6)."""

    reuse: Switch | None = None
    """Later queries use an open connection; otherwise each query has its own, which the client
    closes when it has the reply. By default the profile's, or false. `false` also turns off
    `idle_timeout`, `queries`, `pipelining` and `shared`."""
    idle_timeout: Span | None = None
    """The client closes a connection without queries after this time; by default the profile's, or
    never."""
    queries: Annotated[int, Declared("PersistentConnections", "queries")] | None = None
    """Queries after which the client closes a connection; by default the profile's, or no limit."""
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

    def uses_fast_open(self, profile: dns_profiles.Client | None) -> bool:
        """Whether SYNs ask for cookies and carry queries; `profile` provides missing keys."""
        return False

    def is_kept(self, profile: dns_profiles.Client | None) -> bool:
        """Whether later queries use an open connection; `profile` says so if `reuse` does not."""
        return self.reuse if self.reuse is not None else bool(profile and profile.reuse)

    def contradictions(self, profile: dns_profiles.Client | None) -> Faults:
        """What is wrong between its keys; `profile` provides missing keys."""
        # One key is enough to turn persistent connections off, such as in a variant of a sweep.
        if self.reuse is False or self.is_kept(profile):
            return
        given = [key for key in _OF_KEPT if getattr(self, key, None)]
        if given:
            first, *more = given
            also = f", and so do {', '.join(more)}" if more else ""
            yield refuse(
                f"needs connections that are used again{also}",
                f"set transport.reuse to true, or leave {'them' if more else 'it'} out",
                f"transport.{first}",
            )

    def plan(self, profile: dns_profiles.Client | None, tcp: int) -> dict[str, Any]:
        """The plan's form, without TLS.

        Args:
            profile: Provides missing keys.
            tcp: The index of the TCP settings.
        """
        reuse: Any = "never"
        if self.is_kept(profile):
            idle: int | None = self.idle_timeout
            queries = self.queries
            if profile is not None and profile.reuse:
                idle = span_of(profile.idle_timeout_s) if idle is None else idle
                queries = profile.queries_per_connection if queries is None else queries
            reuse = {
                "persistent": {
                    "idle_timeout": idle,
                    "queries": queries,
                    "pipelined": self._is_pipelined(profile),
                    "shared": self.shared,
                    "after_silence": profile is not None and profile.tcp_after_silence,
                }
            }
        connect: int | None = self.connect_timeout
        answer: int | None = self.answer_timeout
        if profile is not None:
            connect = span_of(profile.tcp_connect_timeout_s) if connect is None else connect
            answer = span_of(profile.tcp_answer_timeout_s) if answer is None else answer
        return {
            "tcp": tcp,
            "reuse": reuse,
            "connect_timeout": connect,
            "answer_timeout": answer,
            "attempts": self._attempts(profile),
            "udp_between": False,
            "refused_together": self._refused_together(profile),
            "length_apart": False,
            "tls": None,
        }

    def _is_pipelined(self, _profile: dns_profiles.Client | None) -> bool:
        # Over QUIC each query has a stream of its own (RFC 9250, 4.2).
        return True

    def _attempts(self, profile: dns_profiles.Client | None) -> dict[str, int]:
        if isinstance(self.tries, int):
            return dict.fromkeys(Tries.declared, self.tries)
        if self.tries is not None:
            return self.tries.plain()
        if profile is None:
            return dict.fromkeys(Tries.declared, 1)
        refused = profile.tcp_attempts_refused
        if not self.uses_fast_open(profile):
            refused //= profile.tcp_refused_together
        return {
            "refused": max(1, refused),
            "closed": max(1, profile.tcp_attempts_closed),
            "reset": max(1, profile.tcp_attempts_reset),
            "silent": max(1, profile.tcp_attempts_silent),
        }

    def _refused_together(self, profile: dns_profiles.Client | None) -> int:
        # If there are two at once, the second is there because the first used Fast Open.
        if profile is None or not self.uses_fast_open(profile):
            return 1
        return profile.tcp_refused_together


class TcpUse(ConnectionUse):
    """How clients use connections over TCP, with TLS or without (RFC 7766, section 6)."""

    pipelining: Switch | None = None
    """Queries go out while others wait for their replies. By default the profile's, or false."""
    writes: Literal["together", "apart"] = "together"
    """Whether the length and the query leave in one write, or in two."""
    fast_open: Switch | None = None
    """TCP Fast Open (RFC 7413): the first connection asks for a cookie, and the SYN of each later
    one carries its first query, if `answers.fast_open` allows it. By default the profile's without
    TLS, or false."""
    tcp: Tcp = Tcp.usual()
    """TCP settings of both ends."""

    def uses_fast_open(self, profile: dns_profiles.Client | None) -> bool:
        """Whether SYNs ask for cookies and carry queries; `profile` provides missing keys."""
        return bool(profile and profile.fast_open) if self.fast_open is None else self.fast_open

    def plan(self, profile: dns_profiles.Client | None, tcp: int) -> dict[str, Any]:
        """The plan's form, without TLS."""
        return super().plan(profile, tcp) | {"length_apart": self.writes == "apart"}

    def _is_pipelined(self, profile: dns_profiles.Client | None) -> bool:
        if self.pipelining is None and profile is not None and profile.reuse:
            return bool(profile.pipelining)
        return bool(self.pipelining)
