"""How DNS clients use TCP, how servers answer, and how long messages are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from narrows import dns_profiles
from narrows.scenario.amounts import Duration
from narrows.scenario.base import Table
from narrows.scenario.dns_quic import Quic, client_handshake, server_handshake
from narrows.scenario.dns_tls import TlsAnswers, TlsUse
from narrows.scenario.draws import Amounts, Sizes, draw
from narrows.scenario.quantities import PositiveSpan, Size, Span, refuse
from narrows.scenario.tcp import Switch

__all__ = [
    "OPT_BYTES",
    "Answers",
    "Asking",
    "ClientName",
    "ConnectionUse",
    "Exchange",
    "Lengths",
    "Messages",
    "Tries",
    "fixed_plan",
    "messages_plan",
    "shortest",
]

_PS = 10**12
_BELOW_DNS = 20 + 8
# The option in each segment (RFC 7323, section 3.2), with its padding.
_TIMESTAMPS = 12
OPT_BYTES = 11
"""An OPT record without options (RFC 6891, 6.1.2)."""
# A header alone (RFC 1035, section 4.1.1).
_SHORTEST = 12
_LONGEST = 65_535

# A profile is a file (narrows.dns_profiles), and needs no line here.
if TYPE_CHECKING:
    ClientName = str
    ServerName = str
    ZoneName = str
else:
    ClientName = Literal[tuple(dns_profiles.clients())]
    ServerName = Literal[tuple(dns_profiles.servers())]
    ZoneName = Literal[tuple(dns_profiles.sizes_names())]

_SOFTWARE = ("bind", "knot", "nsd", "unbound")

Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Few = Annotated[int, Field(strict=True, ge=1, le=255)]
MessageSize = Annotated[Size, Field(ge=_SHORTEST, le=_LONGEST)]


class Exchange(Table):
    """A kind of query and its reply, as DNS messages without IP, UDP or TCP headers."""

    query: MessageSize
    """Length of the query, 12 B to 65535 B."""
    reply: MessageSize
    """Length of the whole reply, 12 B to 65535 B."""
    weight: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 1.0
    """How often it is asked for, in proportion to the others."""


class Lengths(Table):
    """Lengths of DNS messages by themselves; what is drawn is cut to 12 B to 65535 B."""

    query: Sizes
    """Length of a query: a size, a list that starts again at its end, or a distribution."""
    reply: Sizes
    """Length of a whole reply, in the same forms."""

    @model_validator(mode="after")
    def _are_lengths_of_messages(self) -> Lengths:
        for key, sizes in (("query", self.query), ("reply", self.reply)):
            listed = sizes if isinstance(sizes, tuple) else ()
            given = {key: sizes} if isinstance(sizes, int) else {}
            given |= {f"{key}[{index}]": size for index, size in enumerate(listed)}
            for place, size in given.items():
                if not _SHORTEST <= size <= _LONGEST:
                    raise refuse(
                        f'"{int(size)} B" is no length of a DNS message',
                        f'"{_SHORTEST} B" to "{_LONGEST} B"',
                        place,
                    )
        return self


class Tries(Table):
    """Connections that a query is worth, the first one included, by how the last one failed."""

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
    """Later queries use a connection that is open; otherwise each query has its own, which the
    client closes when it has the reply. The profile's, or false."""
    idle_timeout: Span | None = None
    """The client closes a connection without queries after this time; the profile's, or never."""
    queries: Count | None = None
    """Queries after which it closes a connection; the profile's, or no limit."""
    pipelining: Switch | None = None
    """Queries go out while others wait for their replies. The profile's, or false."""
    shared: Switch = False
    """All workers of the group use the same connections, as those of one resolver do; otherwise
    each worker keeps its own."""
    connect_timeout: PositiveSpan | None = None
    """A connection that is not open by then is given up; the profile's, or TCP decides."""
    answer_timeout: PositiveSpan | None = None
    """A query without a reply by then is given up; the profile's, or it waits for ever."""
    tries: Few | Tries | None = None
    """Connections that a query is worth: a number, or one for each kind of failure,
    `{ refused = 3, closed = 1, reset = 1, silent = 1 }`. The profile's, or 1."""
    udp_between: Switch | None = None
    """After a failed connection it asks over UDP again before the next. The profile's, or false."""
    writes: Literal["together", "apart"] = "together"
    """Length and query leave in one write, or in two."""
    fast_open: Switch | None = None
    """TCP Fast Open (RFC 7413): the first connection asks for a cookie, and the SYN of each later
    one carries its first query, where `answers.fast_open` lets it. The profile's, or false."""
    tls: TlsUse | None = None
    """How they speak TLS, where that is the transport, below HTTPS, or in QUIC."""

    def uses_fast_open(self, profile: dns_profiles.Client | None) -> bool:
        """Whether SYNs ask for cookies and carry queries; `profile` gives what is left out."""
        if self.fast_open is not None:
            return self.fast_open
        return profile is not None and profile.fast_open

    def _is_kept(self, profile: dns_profiles.Client | None) -> bool:
        return self.reuse if self.reuse is not None else bool(profile and profile.reuse)

    def check(self, profile: dns_profiles.Client | None) -> None:
        """Refuses keys that contradict each other; `profile` gives those that are left out."""
        if self._is_kept(profile):
            return
        for key in ("idle_timeout", "queries", "pipelining", "shared"):
            if getattr(self, key):
                raise refuse(
                    "needs connections that are used again",
                    "set connections.reuse to true, or leave it out",
                    f"connections.{key}",
                )

    def plan(
        self, profile: dns_profiles.Client | None, tcp: int, transport: str, quic: Quic
    ) -> dict[str, Any]:
        """The plan's form.

        Args:
            profile: Gives what is left out.
            tcp: The index of TCP's settings.
            transport: What the client asks over at first.
            quic: How it speaks QUIC, where it does.
        """
        reuse: Any = "never"
        if self._is_kept(profile):
            idle: int | None = self.idle_timeout
            queries = self.queries
            pipelined = self.pipelining
            if profile is not None and profile.reuse:
                idle = _span(profile.idle_timeout_s) if idle is None else idle
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
            known = profile.tls if profile else None
            if over_quic is not None:
                known = client_handshake(over_quic)
            tls = (self.tls or TlsUse()).plan(known, transport)
            tls["quic"] = quic.plan(over_quic) if transport == "quic" else None
        connect: int | None = self.connect_timeout
        answer: int | None = self.answer_timeout
        between = self.udp_between
        if profile is not None:
            connect = _span(profile.tcp_connect_timeout_s) if connect is None else connect
            answer = _span(profile.tcp_answer_timeout_s) if answer is None else answer
            between = profile.tcp_retries == "udp-first" if between is None else between
        return {
            "tcp": tcp,
            "reuse": reuse,
            "connect_timeout": connect,
            "answer_timeout": answer,
            "attempts": self._attempts(profile),
            "udp_between": bool(between) and transport == "udp",
            "refused_together": self._refused_together(profile),
            "length_apart": self.writes == "apart",
            "tls": tls,
        }

    def _attempts(self, profile: dns_profiles.Client | None) -> dict[str, int]:
        if isinstance(self.tries, int):
            return dict.fromkeys(("refused", "closed", "reset", "silent"), self.tries)
        if self.tries is not None:
            return self.tries.model_dump()
        if profile is None:
            return dict.fromkeys(("refused", "closed", "reset", "silent"), 1)
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
        # The second one of two is there because the first had used Fast Open.
        if profile is None or not self.uses_fast_open(profile):
            return 1
        return profile.tcp_refused_together


class Answers(Table):
    """How a server answers: its limits and time-outs over TCP (RFC 7766, section 6.2)."""

    profile: ServerName | None = None
    """A real server, whose defaults hold for the keys that are left out (docs/dns-servers.md)."""
    software: Literal["bind", "knot", "nsd", "unbound"] | None = None
    """The same, and on a kernel the server itself, from the system's packages, with the settings
    that these keys give it. The simulator takes its profile."""
    threads: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    """With how many threads or processes the program of `software` answers on a kernel; 1 by
    default. The simulator's servers have as many processors as they need."""
    tcp: Switch = True
    """Listens for connections; otherwise it refuses them."""
    udp_size: Annotated[Size, Field(ge=512, le=65_507)] | None = None
    """The longest reply over UDP, 512 B to 65507 B: longer ones are truncated. The profile's, or
    no limit."""
    connections: Count | None = None
    """Connections at once. The profile's, or no limit."""
    connections_per_client: Count | None = None
    """Connections at once for each client node: one more is closed. The profile's, or no limit."""
    backlog: Annotated[int, Field(strict=True, ge=0, le=65_535)] | None = None
    """Connections that are open and wait to be accepted; beyond it SYNs are dropped. The profile's,
    or 128."""
    when_full: Literal["wait", "reject", "oldest"] | None = None
    """A connection above `connections` waits, is closed at once, or pushes out the one that has
    been idle longest. The profile's, or `"wait"`."""
    idle_timeout: PositiveSpan | None = None
    """A connection without queries is closed after this time. The profile's, or 10 s."""
    first_query_timeout: PositiveSpan | None = None
    """A connection without its first query is closed after this time. The profile's, or
    `idle_timeout`."""
    half_query_timeout: PositiveSpan | None = None
    """A connection with a part of a query is closed when the rest has not come after this time. The
    profile's, or what holds for a connection without queries."""
    on_query: Literal["answer", "close", "reset"] = "answer"
    """What a query over TCP, TLS or HTTPS brings: a reply, or the connection's end, as behind a
    broken server or filter."""
    queries_per_connection: Count | None = None
    """Queries after which it closes a connection. The profile's, or no limit."""
    in_order: Switch | None = None
    """Answers pipelined queries in their order; otherwise as they are ready. The profile's, or
    false."""
    writes: Literal["together", "apart"] | None = None
    """Length and reply leave in one write, or in two, as with NSD before 3.2.14. The profile's, or
    `"together"`."""
    nagle: Switch | None = None
    """Nagle's algorithm at the server. The profile's, or `tcp.nagle`."""
    fast_open: Switch = False
    """Takes queries that come with the SYN (RFC 7413). Profiles leave it at false, as Linux does
    (`net.ipv4.tcp_fastopen = 1`: for clients alone), whatever the server would do."""
    tcp_service: Span = Duration("0 s")
    """Added to the service time of queries over TCP, and of those over TLS, HTTPS and QUIC where
    `tls.service` is left out."""
    max_syn_backlog: Count | None = None
    """Linux's `tcp_max_syn_backlog`, 4096 by default. Without cookies, SYNs are dropped when less
    than a quarter of it is left. There are never more half-open connections
    than `backlog` + 1."""
    synack_retries: Annotated[int, Field(strict=True, ge=0, le=20)] | None = None
    """Linux's `tcp_synack_retries`, 5 by default: how often a SYN-ACK to an address of a flood is
    repeated before its half-open connection is given up."""
    syncookies: Literal["never", "when-full", "always"] | None = None
    """Linux's `tcp_syncookies`: whether a SYN is answered without keeping a half-open connection.
    By default `"when-full"`: when there are `backlog` of them."""
    stateless: Switch = False
    """Answers over TCP without a connection, as behind narrows-gateway: a query goes to the server
    as a datagram would, the reply leaves at once, and the client alone mends losses. Second queries
    on a connection, zone transfers and what UDP does not hold go to ordinary TCP and its limits."""
    tls: TlsAnswers | None = None
    """How the server speaks TLS (port 853), also below HTTPS (port 443). If left out, it speaks TLS
    only where this group's `transport` is `"tls"`, `"https"` or `"quic"`."""

    @model_validator(mode="before")
    @classmethod
    def _software_has_a_profile(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("software") in _SOFTWARE:
            return {"profile": values["software"], **values}
        return values

    @model_validator(mode="after")
    def _is_possible(self) -> Answers:
        if self.software is not None and self.profile != self.software:
            raise refuse(
                f"is another server than {self.profile}", "leave one of them out", "software"
            )
        if self.threads is not None and self.software is None:
            raise refuse("is for a real server", "name it by software, or leave it out", "threads")
        if not self.tcp:
            given = self.model_fields_set - {"profile", "software", "threads", "tcp", "udp_size"}
            for key in sorted(given):
                if getattr(self, key) not in (None, 0, False):
                    raise refuse("is of no use without TCP", "leave it out, or set tcp = true", key)
        if self.stateless and self.fast_open:
            raise refuse("gives no cookies without state", "leave one of them out", "fast_open")
        if self.stateless and self.on_query != "answer":
            raise refuse("needs connections", "leave stateless out", "on_query")
        if self.when_full is not None and self._limit() is None:
            raise refuse("needs a limit", "set connections", "when_full")
        return self

    def _limit(self) -> int | None:
        if self.connections is not None:
            return self.connections
        return None if self.profile is None else dns_profiles.server(self.profile).tcp_connections

    @property
    def known_tls(self) -> dns_profiles.ServerTls | None:
        """How the profile's server speaks TLS, on TCP or in QUIC alone; None: not known."""
        if self.profile is None:
            return None
        known = dns_profiles.server(self.profile)
        return server_handshake(known.quic) if known.tls is None and known.quic else known.tls

    @property
    def may_speak_quic(self) -> bool:
        """Whether it is known how the server would speak QUIC."""
        return self.profile is None or dns_profiles.server(self.profile).quic is not None

    def speaks_no_tls(self, *, over_tcp: bool) -> bool:
        """Whether the profile's server does not, over TCP or at all."""
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
        """What the server sets its connections' MSS to (TCP_MAXSEG); None: it leaves it alone."""
        known = None if self.profile is None else dns_profiles.server(self.profile)
        if known is None or known.segment_bytes is None:
            return None
        return known.segment_bytes + _TIMESTAMPS

    def plan(self, tcp: int, https_tcp: int, quic: Quic, *, over_tls: bool) -> dict[str, Any]:
        """What the plan's server has beside its service times.

        Args:
            tcp: The index of TCP's settings.
            https_tcp: The same where it speaks HTTPS.
            quic: How it speaks QUIC, where it speaks TLS.
            over_tls: Whether it speaks TLS.
        """
        tls = None
        if over_tls:
            tls = (self.tls or TlsAnswers()).plan(self.known_tls, https_tcp)
        known = None if self.profile is None else dns_profiles.server(self.profile)
        if tls is not None:
            of_profile = known.quic if known else None
            tls["quic"] = quic.plan(of_profile) if self.may_speak_quic else None
        udp_size = self.udp_size or (known.udp_bytes if known else 65_507)
        if not self.tcp:
            return {"udp_payload": udp_size, "tcp": None}

        def chosen(key: str, of_profile: str, default: Any) -> Any:
            value = getattr(self, key)
            if value is None and known is not None:
                value = getattr(known, of_profile)
                if of_profile.endswith("_s"):
                    value = _span(value)
            return default if value is None else value

        idle = chosen("idle_timeout", "idle_timeout_s", 10 * _PS)
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
                "busy_levels": [[share, _span(seconds)] for share, seconds in levels],
                "queries_per_connection": per_connection,
                "in_order": in_order,
                "length_apart": writes == "apart",
                "extra_service": self.tcp_service,
                "half_open": {
                    "max_syn_backlog": self.max_syn_backlog or 4096,
                    "synack_retries": 5 if self.synack_retries is None else self.synack_retries,
                    "cookies": self.syncookies or "when-full",
                },
                "stateless": self.stateless,
                "tls": tls,
            },
        }


Messages = (
    ZoneName | Annotated[tuple[Exchange, ...], Field(min_length=1, max_length=10_000)] | Lengths
)
"""How long queries and replies are."""


@dataclass(frozen=True)
class Asking:
    """What queries say of EDNS, on which a server's reply depends."""

    edns_bytes: int = OPT_BYTES
    """What EDNS adds to a query (RFC 6891); 0: it has none."""
    dnssec_ok: bool = True
    """Whether it asks for signatures (the DO bit, RFC 3225)."""

    def query(self, choice: dns_profiles.SizeChoice) -> int:
        """The length of a query that was measured."""
        return choice.query_bytes - OPT_BYTES + self.edns_bytes

    def reply(self, choice: dns_profiles.SizeChoice) -> dns_profiles.Reply:
        """What the server sent to a client that asks so."""
        if not self.edns_bytes:
            return choice.without_edns
        return choice if self.dnssec_ok else choice.without_do


def messages_plan(messages: Messages, asking: Asking) -> dict[str, Any]:
    """The plan's form of the lengths of messages."""
    if isinstance(messages, Lengths):
        return {"drawn": {"query": draw(messages.query), "reply": draw(messages.reply)}}
    if isinstance(messages, str):
        choices = [_measured(choice, asking) for choice in dns_profiles.sizes(messages).choices]
    else:
        choices = [choice.model_dump() for choice in messages]
    return {"chosen": choices}


def _measured(choice: dns_profiles.SizeChoice, asking: Asking) -> dict[str, Any]:
    """An exchange as the server had it, over TCP and, where that was shorter, over UDP."""
    reply = asking.reply(choice)
    plan: dict[str, Any] = {
        "query": asking.query(choice),
        "reply": reply.reply_bytes,
        "weight": choice.weight,
    }
    if reply.udp_reply_bytes < reply.reply_bytes:
        plan["over_udp"] = {"bytes": reply.udp_reply_bytes, "truncated": reply.truncated}
    return plan


def fixed_plan(query_size: int, reply_size: int) -> dict[str, Any]:
    """The same for IP packets of fixed lengths over UDP."""
    query, reply = ({"constant": size - _BELOW_DNS} for size in (query_size, reply_size))
    return {"drawn": {"query": query, "reply": reply}}


def shortest(messages: Messages, asking: Asking) -> tuple[int, int]:
    """The shortest query and the shortest reply that may come, in bytes of DNS."""
    if isinstance(messages, Lengths):
        return _least(messages.query), _least(messages.reply)
    choices = messages_plan(messages, asking)["chosen"]
    replies = (each["reply"] for each in choices)
    shorter = (each["over_udp"]["bytes"] for each in choices if "over_udp" in each)
    return min(each["query"] for each in choices), min([*replies, *shorter])


def _least(sizes: Amounts) -> int:
    if isinstance(sizes, int):
        return sizes
    return min(sizes) if isinstance(sizes, tuple) else _SHORTEST


def _span(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * _PS)
