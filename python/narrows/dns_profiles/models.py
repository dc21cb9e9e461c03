"""The values of a profile, which describes a client, a server or a zone's messages.

Times are in seconds and sizes in bytes. A profile describes queries to one server, each for a new
name. It does not cover what a client does with several servers.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(strict=True, ge=0)]
DESCRIPTION = {"name", "program", "version", "role", "sources", "notes"}
"""Fields that need no source."""


class Profile(BaseModel):
    """The values that every profile has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """The name in scenarios, and of the file."""
    program: str
    """The program, and how it was used."""
    version: str
    """The tested version of the program."""
    sources: dict[str, str]
    """For each value, the trial or page that shows it."""
    notes: tuple[str, ...] = ()
    """Further facts that a reader should know."""

    @model_validator(mode="after")
    def _every_value_has_a_source(self) -> Self:
        keys = set(type(self).model_fields) - DESCRIPTION
        if lacking := sorted(self.model_fields_set & keys - set(self.sources)):
            raise ValueError(f"no source for {', '.join(lacking)}")
        if unknown := sorted(set(self.sources) - keys):
            raise ValueError(f"sources name no value: {', '.join(unknown)}")
        return self


def _whole(tls: BaseModel) -> None:
    """Checks that a profile with HTTPS has all values about it.

    Raises:
        ValueError: Some of the values are missing.
    """
    keys = [key for key in type(tls).model_fields if key.startswith("https_")]
    lacking = [key for key in keys if getattr(tls, key) is None]
    if lacking and len(lacking) < len(keys):
        raise ValueError(f"HTTPS also needs {', '.join(lacking)}")


class ClientTls(BaseModel):
    """How a client speaks TLS 1.3 (RFC 8446)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hello_bytes: Annotated[int, Field(strict=True, ge=90, le=16_000)]
    """Bytes of a ClientHello that offers no session, with its record."""
    pads_hello: bool
    """Whether a ClientHello of 256 to 511 bytes becomes one of 512 (RFC 7685)."""
    key_share_bytes: Count
    """Bytes of its public key: 32 (X25519) or 65 (P-256)."""
    alpn: bool
    """Whether it offers `dot` (RFC 7858) as application protocol."""
    apart: bool
    """Whether ChangeCipherSpec and Finished are two writes."""
    nagle: bool
    """Whether Nagle's algorithm holds its query back until Finished is acknowledged."""
    padding_bytes: Count
    """It pads queries to a multiple of this (RFC 8467); 0 for no padding."""
    resumption: bool
    """Whether a later connection resumes the session of an earlier one."""
    close_notify: bool
    """Whether it sends close_notify before it closes."""
    https_preface_bytes: Count | None = None
    """Bytes before its first request over HTTPS (RFC 8484): HTTP/2's preface and SETTINGS. Not
    given if it does not speak HTTPS, or was not tested with it."""
    https_fields_bytes: Count | None = None
    """The fields of a connection's first request, compressed (RFC 7541)."""
    https_fields_again_bytes: Count | None = None
    """The same for later ones."""

    @model_validator(mode="after")
    def _https_is_whole(self) -> Self:
        _whole(self)
        return self


class ServerTls(BaseModel):
    """How a server speaks TLS 1.3 (RFC 8446)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hash_bytes: Count
    """The hash length of the suite that it chooses: 48 (AES-256-GCM with SHA-384) or 32."""
    groups_bytes: Count
    """Bytes of the list of groups that it adds if the client's key is not from the best group."""
    alpn: bool
    """Whether it chooses `dot` if a client offers it."""
    ticket_bytes: Count
    """Bytes of a ticket (NewSessionTicket), with its record."""
    tickets: Count
    """Tickets after a full handshake."""
    tickets_resumed: Count
    """Tickets after a handshake that has resumed a session."""
    tickets_apart: bool
    """Whether each ticket is a separate write."""
    write_bytes: Count | None = None
    """It sends its certificates in writes of this many bytes; by default in one write."""
    padding_bytes: Count
    """It pads replies to padded queries to a multiple of this (RFC 8467); 0 for no padding."""
    early_data: bool
    """Whether its sessions allow early data (0-RTT)."""
    close_notify: bool
    """Whether it sends close_notify before it closes."""
    https_settings_bytes: Count | None = None
    """Bytes of its SETTINGS over HTTPS (RFC 8484), and of what it sends with them. Not given if it
    does not speak HTTPS, or was not tested with it."""
    https_acknowledges_apart: bool | None = None
    """Whether it acknowledges the client's SETTINGS in a separate write."""
    https_fields_bytes: Count | None = None
    """The fields of a connection's first response, compressed (RFC 7541)."""
    https_fields_again_bytes: Count | None = None
    """The same for later ones."""
    https_tickets_apart: bool | None = None
    """Whether each ticket is a separate write."""
    https_nagle: bool | None = None
    """Whether Nagle's algorithm is on."""

    @model_validator(mode="after")
    def _https_is_whole(self) -> Self:
        _whole(self)
        return self


class ClientQuic(BaseModel):
    """How a client speaks QUIC (RFC 9250, RFC 9000)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hello_bytes: Annotated[int, Field(strict=True, ge=150, le=16_000)]
    """Bytes of a ClientHello that offers no session, with transport parameters."""
    key_share_bytes: Count
    """Bytes of the public key that servers choose: 32 (X25519) or 65 (P-256)."""
    id_bytes: Count
    """Bytes of the connection ID that it chooses for itself."""
    parameters_bytes: Count
    """Bytes of its transport parameters (RFC 9000, 18)."""
    payload_bytes: Annotated[int, Field(strict=True, ge=1200, le=65_507)]
    """Bytes of the longest datagram with data, except path probes."""
    waits: bool
    """Whether it asks only once the server has confirmed the handshake (HANDSHAKE_DONE)."""
    padding_bytes: Count
    """It pads queries to a multiple of this (RFC 8467); 0 for no padding."""
    resumption: bool
    """Whether a later connection resumes the session of an earlier one."""


class ServerQuic(BaseModel):
    """How a server speaks QUIC (RFC 9250, RFC 9000)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hash_bytes: Count
    """The hash length of the suite that it chooses: 48 (AES-256-GCM with SHA-384) or 32."""
    id_bytes: Count
    """Bytes of the connection ID that it chooses for itself."""
    parameters_bytes: Count
    """Bytes of its transport parameters (RFC 9000, 18), and of record_size_limit if it sends it."""
    payload_bytes: Annotated[int, Field(strict=True, ge=1200, le=65_507)]
    """Bytes of the longest datagram."""
    idle_timeout_s: Seconds
    """A silent connection ends after this time (RFC 9000, 10.1)."""
    ticket_bytes: Count
    """Bytes of a ticket (NewSessionTicket), without frame or record."""
    tickets: Count
    """Tickets after a full handshake."""
    early_data: bool
    """Whether its sessions allow early data (0-RTT)."""
    extras_bytes: Count
    """Bytes of new connection IDs and a token (RFC 9000, 19.7, 19.15), sent with HANDSHAKE_DONE."""
    padding_bytes: Count
    """It pads replies to padded queries to a multiple of this (RFC 8467); 0 for no padding."""


class Client(Profile):
    """How a program queries a DNS server, and what it does when that fails."""

    role: Literal["stub", "resolver", "forwarder", "tool"]
    """A library in a program, a caching resolver, a forwarder, or a tool for people."""
    edns_bytes: Count
    """The reply size that it offers over UDP (RFC 6891); 0 if it sends no EDNS."""
    dnssec_ok: bool
    """Whether its queries ask for signatures (the DO bit, RFC 3225)."""
    query_extra_bytes: Count
    """Bytes of its query besides header and question: an OPT record, perhaps with a cookie."""
    timeouts_s: tuple[Seconds, ...]
    """How long it waits for a reply after each query over UDP to a server that it does not know
    yet: one timeout for each query."""
    known_timeouts_s: tuple[Seconds, ...]
    """The same for a server that has just answered ten queries with a round trip of 20 ms."""
    adapts: bool
    """Whether the timeouts follow the server's round trips."""
    gives_up_s: Seconds
    """When it reports a failure to its user, counted from the first query, over UDP only."""
    overall_limit_s: Seconds | None = None
    """When it reports an error to its user whatever it is still trying, including TCP; not given if
    its attempts decide."""
    new_port: bool
    """Whether each attempt uses a new port."""
    unreachable: Literal["fails", "next", "waits"]
    """What "port unreachable" does: it ends the search, starts the next attempt at once, or does
    nothing."""
    format_error: Literal["plain", "fails", "never"]
    """What it does after FORMERR: it asks again without EDNS, gives up, or never sends EDNS."""
    fallback_on_truncation: bool
    """Whether it asks again over TCP when a reply is truncated."""
    fallback_on_timeout: bool
    """Whether it tries TCP when all queries over UDP are lost."""
    fragmented_reply: Literal["taken", "asked-again"]
    """Whether it uses a reply that came in fragments, or asks again over TCP."""
    tcp_retries: Literal["none", "tcp", "udp-first"]
    """What follows a failed connection: nothing, another connection, or the query over UDP again
    and then a connection."""
    tcp_attempts_refused: Count
    """Connections (SYNs from different ports) if the server refuses each with RST."""
    tcp_refused_together: Annotated[int, Field(strict=True, ge=1)] = 1
    """How many of these follow each other at once because they use Fast Open, before it pauses,
    asks over UDP or gives up."""
    tcp_attempts_closed: Count
    """The same if the server closes after the query, without a reply."""
    tcp_attempts_reset: Count
    """The same if it resets after the query."""
    tcp_attempts_silent: Count
    """Connections, or queries on the same connection, if no reply comes."""
    tcp_after_silence: bool = False
    """Whether it keeps and reuses a connection on which a reply did not arrive in time."""
    tcp_connect_timeout_s: Seconds | None = None
    """When it gives up a connection whose SYN gets no answer; not given if the kernel decides."""
    tcp_answer_timeout_s: Seconds | None = None
    """When it gives up a query on an open connection; not given for never."""
    reuse: bool
    """Whether a later query uses an open connection."""
    idle_timeout_s: Seconds | None = None
    """When it closes a connection without queries; not given if it closes after the reply."""
    queries_per_connection: Count | None = None
    """The most queries on a connection; by default no limit if it reuses connections, else one."""
    pipelining: bool
    """Whether it sends queries on a connection while others wait for their replies."""
    fast_open: bool
    """Whether it requests a TCP Fast Open cookie, and uses it (RFC 7413)."""
    ecn_on_syn: bool
    """Whether its SYN offers ECN: the kernel's setting (tcp_ecn), which no client here changes."""
    one_segment: bool
    """Whether it sends length and query in one segment."""
    closes: bool
    """Whether it closes first, after the reply or the idle timeout."""
    tls: ClientTls | None = None
    """How it speaks TLS; not given if it does not, or was not tested with it."""
    quic: ClientQuic | None = None
    """How it speaks QUIC; not given if it does not, or was not tested with it."""

    @property
    def attempts(self) -> int:
        """Queries that it sends over UDP if none gets an answer.

        Examples:
            >>> from narrows.dns_profiles import client
            >>> client("glibc").attempts
            2
        """
        return len(self.timeouts_s)


class Server(Profile):
    """How a server treats its TCP clients, and what it sends over UDP."""

    tcp_connections: Count | None = None
    """The most connections at once, per process or thread if it has the default number of them; not
    given if it has no limit of its own."""
    backlog: Count
    """How many established connections may wait to be accepted: the argument of listen(), capped by
    the kernel's somaxconn (4096)."""
    when_full: Literal["wait", "reject", "oldest"]
    """A connection above the limit waits in the backlog, is closed at once, or replaces the one
    that has been idle longest."""
    idle_timeout_s: Seconds
    """The timeout of a connection without queries."""
    first_query_timeout_s: Seconds
    """The timeout of a connection that has not sent a query yet."""
    half_query_timeout_s: Seconds
    """The timeout of a connection that has sent part of a query."""
    busy_levels: tuple[tuple[float, Seconds], ...] = ()
    """Shorter timeouts, including those for handshakes and half queries: a connection accepted
    while more than this share is in use has this many seconds."""
    busy_counts_new: bool = False
    """Whether that connection itself counts as in use."""
    busy_stays: bool = False
    """Whether its place in the table keeps the shorter timeout for all later connections."""
    queries_per_connection: Count | None = None
    """Queries after which it closes a connection; not given for no limit."""
    connections_per_client: Count | None = None
    """The most connections per client address; not given for no limit."""
    tcp_keepalive: bool
    """Whether it answers the edns-tcp-keepalive option (RFC 7828) by default."""
    one_segment: bool
    """Whether it sends length and reply in one segment."""
    nagle: bool
    """Whether Nagle's algorithm (RFC 896) holds a reply back while an earlier one on the connection
    is unacknowledged."""
    segment_bytes: Count | None = None
    """The longest segment it sends (TCP_MAXSEG less options); by default as the path allows."""
    out_of_order: bool
    """Whether it answers pipelined queries as soon as they are ready, not in order."""
    fast_open: bool
    """Whether it accepts TCP Fast Open as packaged, where the kernel allows it."""
    udp_bytes: Count
    """The longest reply over UDP, whatever the client offers."""
    tls: ServerTls | None = None
    """How it speaks TLS; not given if it does not, or was not tested with it."""
    quic: ServerQuic | None = None
    """How it speaks QUIC; not given if it does not, or was not tested with it."""


class Reply(BaseModel):
    """A server's reply to a query, over TCP and over UDP."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reply_bytes: Annotated[int, Field(strict=True, ge=12, le=65535)]
    """The whole reply, as sent over TCP."""
    udp_reply_bytes: Annotated[int, Field(strict=True, ge=12, le=65535)]
    """The reply over UDP to a client that offers 1232 bytes or, without EDNS, accepts 512;
    truncated if `truncated`."""
    truncated: bool = False
    """Whether the reply over UDP has TC set."""


class SizeChoice(Reply):
    """A kind of query and reply, and how often it occurs.

    Its own sizes are those with EDNS and the DO bit.
    """

    kind: str
    """What the query asks for."""
    query_bytes: Annotated[int, Field(strict=True, ge=12, le=65535)]
    """The DNS message with an OPT record of 11 bytes, without TCP's length prefix."""
    without_do: Reply
    """The same query with EDNS, but without the DO bit: no signatures (RFC 4035, 3.1)."""
    without_edns: Reply
    """The same query without EDNS."""
    weight: Annotated[float, Field(ge=0)]
    """Its share is this divided by the sum of all weights."""


class Sizes(BaseModel):
    """Sizes of queries and replies for a zone, as a server sent them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    program: str
    version: str
    source: str
    """How they were measured."""
    weights: str
    """Where the weights come from; "a choice" if nothing was measured."""
    choices: Annotated[tuple[SizeChoice, ...], Field(min_length=1)]
