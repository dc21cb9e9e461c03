"""How DNS servers answer: limits and timeouts over TCP, TLS and QUIC (RFC 7766, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from narrows import dns_profiles
from narrows.scenario.amounts import SECOND, DataSize, Duration
from narrows.scenario.base import Table
from narrows.scenario.codepoints import Dscp
from narrows.scenario.declared import Declared, usual
from narrows.scenario.dns_quic import Quic, server_handshake
from narrows.scenario.dns_tls import TlsAnswers
from narrows.scenario.quantities import PositiveSpan, Span, Switch, refuse, span_of
from narrows.scenario.rules import Faults, rule

# The option in each segment (RFC 7323, section 3.2), with its padding.
_TIMESTAMPS = 12

# A profile is a file (narrows.dns_profiles), and needs no line here.
if TYPE_CHECKING:
    ServerName = str
else:
    ServerName = Literal[tuple(dns_profiles.servers())]

_SOFTWARE = ("bind", "knot", "nsd", "unbound")


class Answers(Table):
    """How a server answers: its limits and timeouts over TCP (RFC 7766, section 6.2)."""

    profile: ServerName | None = None
    """A real server, which gives the keys that are left out (docs/dns-servers.md)."""
    software: Literal["bind", "knot", "nsd", "unbound"] | None = None
    """Like `profile`. On a kernel, the real server itself answers, from the system's packages and
    with the settings that these keys give it. The simulator uses its profile."""
    threads: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    """Threads or processes with which the program of `software` answers on a kernel; 1 by default.
    The simulator's servers have as many processors as they need."""
    dscp: Dscp = 0
    """The Differentiated Services code point of what the server sends, as `dscp` of the group.
    Servers do not take it over from their clients, and neither does Linux' TCP
    (`net.ipv4.tcp_reflect_tos = 0`)."""
    tcp: Switch = True
    """Whether the server listens for connections; otherwise it refuses them."""
    udp_size: Annotated[DataSize, Declared("DnsServer", "udp_payload")] | None = None
    """The longest reply over UDP, 512 B to 65507 B; longer ones are truncated. By default the
    profile's, or no limit."""
    connections: Annotated[int, Declared("DnsServerTcp", "connections")] | None = None
    """The most connections at once. By default the profile's, or no limit."""
    connections_per_client: (
        Annotated[int, Declared("DnsServerTcp", "connections_per_client")] | None
    ) = None
    """The most connections at once for each client node; further ones are closed. By default the
    profile's, or no limit."""
    backlog: Annotated[int, Declared("DnsServerTcp", "backlog")] | None = None
    """How many open connections may wait to be accepted; beyond that, SYNs are dropped. By default
    the profile's, or 128."""
    when_full: Annotated[str, Declared("DnsServerTcp", "when_full")] | None = None
    """A connection above `connections` waits, is closed at once, or pushes out the one that has
    been idle longest. By default the profile's, or `"wait"`."""
    idle_timeout: PositiveSpan | None = None
    """A connection without queries is closed after this time. By default the profile's, or 10 s."""
    first_query_timeout: PositiveSpan | None = None
    """A connection without its first query is closed after this time. By default the profile's, or
    `idle_timeout`."""
    half_query_timeout: PositiveSpan | None = None
    """A connection with part of a query is closed if the rest has not come after this time. By
    default the profile's, or the time for a connection without queries."""
    on_query: Annotated[str, Declared("DnsServerTcp", "on_query")] = "answer"
    """What the server does when a query arrives over TCP, TLS or HTTPS: it replies, or it closes or
    resets the connection, as a broken server or filter would."""
    queries_per_connection: (
        Annotated[int, Declared("DnsServerTcp", "queries_per_connection")] | None
    ) = None
    """Queries after which the server closes a connection. By default the profile's, or no limit."""
    in_order: Switch | None = None
    """Whether pipelined queries are answered in their order; otherwise each is answered when its
    reply is ready. By default the profile's, or false."""
    writes: Literal["together", "apart"] | None = None
    """Whether the length and the reply leave in one write, or in two, as with NSD before 3.2.14. By
    default the profile's, or `"together"`."""
    nagle: Switch | None = None
    """Nagle's algorithm at the server. By default the profile's, or as the clients' TCP."""
    fast_open: Switch = False
    """Accepts queries in the SYN (RFC 7413). Profiles leave this false, whatever the server would
    do, as Linux does (`net.ipv4.tcp_fastopen = 1` is for clients only)."""
    tcp_service: Span = Duration("0 s")
    """Added to the service time of queries over TCP and, if `tls.service` is left out, of those
    over TLS, HTTPS, QUIC and HTTP/3."""
    max_syn_backlog: Annotated[int, Declared("HalfOpenLimits", "max_syn_backlog")] | None = None
    """Linux's `tcp_max_syn_backlog`, 4096 by default. Without cookies, SYNs are dropped when less
    than a quarter of it is left. There are never more half-open connections
    than `backlog` + 1."""
    synack_retries: Annotated[int, Declared("HalfOpenLimits", "synack_retries")] | None = None
    """Linux's `tcp_synack_retries`, 5 by default: how often a SYN-ACK to an address of a flood is
    repeated before its half-open connection is given up."""
    syncookies: Annotated[str, Declared("HalfOpenLimits", "cookies")] | None = None
    """Linux's `tcp_syncookies`: whether a SYN is answered without keeping a half-open connection.
    By default `"when-full"`: once there are `backlog` half-open connections."""
    synack_timers: Annotated[str, Declared("HalfOpenLimits", "synack_timers")] | None = None
    """When these repetitions are due: after exactly 1, 2, 4, ... seconds (`"exact"`, the default),
    or at slots of Linux's timer wheel (`"wheel"`), whose jiffy is the TCP settings'
    `timer_granularity`. A kernel always has its wheel."""
    stateless: Switch = False
    """Answers over TCP without keeping a connection, as behind narrows-gateway: the server gets
    each query as if it were a datagram, the reply leaves at once, and only the client makes up for
    losses. Second queries on a connection, zone transfers and messages too long for UDP go to
    ordinary TCP with its limits."""
    tls: TlsAnswers | None = None
    """How the server speaks TLS (port 853), also below HTTPS (port 443). If left out, it speaks TLS
    only if this group asks over TLS, HTTPS, QUIC or HTTP/3."""

    @model_validator(mode="before")
    @classmethod
    def _software_has_a_profile(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("software") in _SOFTWARE:
            return {"profile": values["software"], **values}
        return values

    @rule
    def _is_one_server(self) -> Faults:
        if self.software is not None and self.profile not in (None, self.software):
            yield refuse(
                f"is another server than {self.profile}", "leave one of them out", "software"
            )

    @rule
    def _threads_are_of_a_real_server(self) -> Faults:
        if self.threads is not None and self.software is None:
            yield refuse(
                "is only for a real server", "name it by software, or leave it out", "threads"
            )

    @rule
    def _keys_of_tcp_have_a_use(self) -> Faults:
        if not self.tcp:
            given = self.model_fields_set - {"profile", "software", "threads", "tcp", "udp_size"}
            for key in sorted(given):
                if getattr(self, key) not in (None, 0, False):
                    yield refuse(
                        "has no effect without TCP", "leave it out, or set tcp = true", key
                    )

    @rule
    def _goes_without_state(self) -> Faults:
        if self.stateless and self.fast_open:
            yield refuse("gives no cookies without state", "leave one of them out", "fast_open")
        if self.stateless and self.on_query != "answer":
            yield refuse("needs connections", "leave stateless out", "on_query")

    @rule
    def _can_be_full(self) -> Faults:
        if self.when_full is not None and self._limit() is None:
            yield refuse("needs a limit of connections", "set connections", "when_full")

    def _limit(self) -> int | None:
        if self.connections is not None:
            return self.connections
        return None if self.profile is None else dns_profiles.server(self.profile).tcp_connections

    @property
    def known_tls(self) -> dns_profiles.ServerTls | None:
        """How the profile's server speaks TLS, on TCP or only in QUIC; None if not known."""
        if self.profile is None:
            return None
        known = dns_profiles.server(self.profile)
        return server_handshake(known.quic) if known.tls is None and known.quic else known.tls

    @property
    def may_speak_quic(self) -> bool:
        """Whether it is known how the server would speak QUIC."""
        return self.profile is None or dns_profiles.server(self.profile).quic is not None

    def speaks_no_tls(self, *, over_tcp: bool) -> bool:
        """Whether the profile's server is known to speak no TLS, over TCP or at all."""
        if self.profile is None:
            return False
        return (dns_profiles.server(self.profile).tls if over_tcp else self.known_tls) is None

    def uses_nagle(self) -> bool | None:
        """Whether the server's TCP has Nagle's algorithm; None: as the group's settings say."""
        if self.nagle is not None or self.profile is None:
            return self.nagle
        return dns_profiles.server(self.profile).nagle

    @property
    def mss(self) -> int | None:
        """The MSS that the server sets for its connections (TCP_MAXSEG); None: it sets none."""
        known = None if self.profile is None else dns_profiles.server(self.profile)
        if known is None or known.segment_bytes is None:
            return None
        return known.segment_bytes + _TIMESTAMPS

    def plan(self, tcp: int, https_tcp: int, quic: Quic, *, over_tls: bool) -> dict[str, Any]:
        """The server in the plan, without its service times.

        Args:
            tcp: The index of its TCP settings.
            https_tcp: The index of its TCP settings over HTTPS.
            quic: How the group's clients speak QUIC, and the server unless it has its own keys.
            over_tls: Whether it speaks TLS.
        """
        tls = None
        if over_tls:
            tls = (self.tls or TlsAnswers()).plan(self.known_tls, https_tcp)
        known = None if self.profile is None else dns_profiles.server(self.profile)
        if tls is not None:
            of_profile = known.quic if known else None
            own = self.tls.quic if self.tls else None
            tls["quic"] = (own or quic).plan(of_profile) if self.may_speak_quic else None
            # No program's HTTP/3 was captured.
            tls["http3"] = usual("Http3Responses") if known is None else None
        udp_size = self.udp_size or (known.udp_bytes if known else 65_507)
        if not self.tcp:
            return {"udp_payload": udp_size, "tcp": None}

        def chosen(key: str, of_profile: str, default: Any) -> Any:
            value = getattr(self, key)
            if value is None and known is not None:
                value = getattr(known, of_profile)
                if of_profile.endswith("_s"):
                    value = span_of(value)
            return default if value is None else value

        idle = chosen("idle_timeout", "idle_timeout_s", 10 * SECOND)
        writes = self.writes
        if writes is None and known is not None:
            writes = "together" if known.one_segment else "apart"
        limit = self._limit()
        levels = known.busy_levels if known is not None and limit is not None else ()
        of_client = chosen("connections_per_client", "connections_per_client", None)
        per_connection = chosen("queries_per_connection", "queries_per_connection", None)
        in_order = self.in_order
        if in_order is None:
            in_order = known is not None and not known.out_of_order
        return {
            "udp_payload": udp_size,
            "tcp": {
                "tcp": tcp,
                "backlog": chosen("backlog", "backlog", 128),
                "connections": limit,
                "connections_per_client": of_client,
                "when_full": chosen("when_full", "when_full", "wait"),
                "idle_timeout": idle,
                "first_query_timeout": chosen("first_query_timeout", "first_query_timeout_s", idle),
                "half_query_timeout": chosen("half_query_timeout", "half_query_timeout_s", None),
                "on_query": self.on_query,
                "busy_levels": [[share, span_of(seconds)] for share, seconds in levels],
                "busy_counts_new": bool(levels) and known is not None and known.busy_counts_new,
                "busy_stays": bool(levels) and known is not None and known.busy_stays,
                "queries_per_connection": per_connection,
                "in_order": in_order,
                "length_apart": writes == "apart",
                "extra_service": self.tcp_service,
                "half_open": {
                    "max_syn_backlog": self.max_syn_backlog or 4096,
                    "synack_retries": 5 if self.synack_retries is None else self.synack_retries,
                    "cookies": self.syncookies or "when-full",
                    "synack_timers": self.synack_timers or "exact",
                },
                "stateless": self.stateless,
                "tls": tls,
            },
        }
