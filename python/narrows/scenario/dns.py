"""Resolver workers, and the server that they ask.

Each worker waits for its answer before it asks again (a closed loop), or queries arrive
independently of answers (`arrivals`). A group asks over UDP, TCP, TLS, HTTPS, QUIC or HTTP/3
(narrows.scenario.dns_transports). `profile` fills missing keys from a real client, and
`answers.profile` from a real server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from narrows import _core, dns_profiles
from narrows.scenario.amounts import SECOND, DataSize, Duration
from narrows.scenario.codepoints import Dscp
from narrows.scenario.declared import DeclaredTable
from narrows.scenario.dns_answers import Answers
from narrows.scenario.dns_arrivals import Arrivals
from narrows.scenario.dns_connections import ClientName, TcpUse, captured
from narrows.scenario.dns_messages import (
    BELOW_DNS,
    OPT_BYTES,
    Asking,
    Messages,
    fixed_plan,
    messages_plan,
    shortest,
)
from narrows.scenario.dns_quic import Quic
from narrows.scenario.dns_tls import TlsAnswers
from narrows.scenario.dns_transports import (
    OverHttp3,
    OverHttps,
    OverQuic,
    OverTls,
    OverUdp,
    Transport,
    WithQuic,
    in_new_form,
)
from narrows.scenario.quantities import (
    DnsReplySize,
    DnsSize,
    Name,
    Path,
    PositiveSpan,
    Span,
    refuse,
)
from narrows.scenario.rules import Faults, rule
from narrows.scenario.tcp import Tcp
from narrows.scenario.traffic.base import Amount, Countable, Group, Leg

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner

ENCRYPTED = (OverTls, OverHttps, WithQuic)
"""The transports that encrypt."""
WORKERS = Countable("resolver worker", "resolver workers", 100_000)
PLACES = Countable("outstanding query", "outstanding queries", 100_000)
"""The queries that can be under way at once, in groups with `arrivals`."""
QUERIES = Countable("query", "queries", _core.most_queries, can_be="recorded")


class Dns(
    DeclaredTable,
    Group,
    declares="DnsClient",
    without=("server", "there", "back", "start", "arrivals", "sizes", "gives_up", "udp", "tcp"),
):
    """A group of resolver workers. Each asks a query, waits, retries, and then asks the next one.

    With `arrivals`, queries begin at their own times instead.
    """

    countables: ClassVar[tuple[Countable, ...]] = (WORKERS, PLACES, QUERIES)

    client: Name
    """The node of the workers."""
    server: Name
    """The node of the DNS server."""
    route: Path | None = None
    """The nodes that queries pass, each a neighbour of the one before, instead of the shortest
    path. You may leave out nodes at either end: the shortest path leads there."""
    route_back: Path | None = None
    """The same for replies."""
    arrivals: Arrivals | None = None
    """Queries arrive at times of their own, such as `{ per_second = 100 }`. Without it, each worker
    waits for an answer before it asks again."""
    transport: Transport = OverUdp.usual()
    """What carries queries: `"udp"`, `"tcp"`, `"tls"` (RFC 7858), `"https"` (HTTP/2, RFC 8484),
    `"quic"` (RFC 9250) or `"http3"` (RFC 8484, RFC 9114), or a table with that `kind` and its
    keys, such as `{ kind = "tcp", reuse = true }`."""
    profile: ClientName | None = None
    """A real client, which gives the keys that are left out (docs/dns-clients.md). If it was not
    captured over TLS, HTTPS or QUIC (over HTTP/3, none was), its habits over TCP hold there;
    handshakes, padding and Fast Open are then as without a profile (docs/dns-tls.md)."""
    gives_up: PositiveSpan | None = None
    """A query without an answer is given up after this time, whatever attempts are left. By default
    the profile's, if it has such a limit for UDP and TCP together, or never."""
    answers: Answers = Answers.usual()
    """How the server answers."""
    shares_server: Name | None = None
    """The group whose server also answers the queries of this group, which then has no server of
    its own. Limits hold for both groups together."""
    messages: Messages | None = None
    """Lengths of DNS messages, instead of `query_size` and `reply_size`: the name of a measured
    zone (docs/dns-servers.md), with signatures unless `profile` does not ask for them; a list of
    kinds of queries, from which each query is drawn, `[{ query = "45 B", reply = "1163 B", weight =
    2.0 }, ...]`; or separate lengths, `{ query = "45 B", reply = ["100 B", "3 kB"] }`."""
    start: Span = Duration("0 s")
    """When the first worker may start."""
    dscp: Dscp = 0
    """The Differentiated Services code point of what the clients send (RFC 2474): a number from 0
    to 63, or a name such as `"CS1"`, `"AF41"`, `"EF"`, `"VA"` or `"LE"`. The server's is
    `answers.dscp`."""
    service: Span = Duration("0 s")
    """Constant part of the time from a query's arrival at the server to its reply."""
    service_jitter_mean: Span = Duration("0 s")
    """Mean of an exponentially distributed part, added to `service`."""
    query_size: DnsSize = DataSize("70 B")
    """IP packet length of queries over UDP without EDNS, 40 B to 1500 B. `transport.edns_size` adds
    an OPT record of 11 B, and a profile adds what its program adds."""
    reply_size: DnsReplySize = DataSize("100 B")
    """IP packet length of replies over UDP, 40 B to 65535 B. A reply above the path's `mtu` leaves
    in fragments."""

    @model_validator(mode="before")
    @classmethod
    def _has_the_keys_of_its_transport(cls, values: Any) -> Any:
        new = in_new_form(values) if isinstance(values, Mapping) else ""
        if new:
            raise refuse("has keys beside it that belong in its table", new, "transport")
        return values

    @rule
    def _has_two_ends(self) -> Faults:
        if self.client == self.server:
            yield refuse("is also the client", "name two nodes", "server")

    @rule
    def _pages_alone_decide(self) -> Faults:
        if self.queries != 0:
            return
        for key in ("workers", "arrivals", "think_mean", "start", "spread"):
            if key in self.model_fields_set:
                yield refuse(
                    "has no effect with queries = 0, which leaves all queries to pages",
                    "leave one of them out",
                    key,
                )

    @rule
    def _arrivals_stand_alone(self) -> Faults:
        for key, instead in (
            ("workers", "set arrivals.outstanding"),
            ("think_mean", "leave it out"),
        ):
            if self.arrivals is not None and key in self.model_fields_set:
                yield refuse(
                    "is only for workers that wait for answers, not for arrivals", instead, key
                )

    @rule
    def _client_knows_the_transport(self) -> Faults:
        known = self._known()
        if known is not None and self._udp is None and not known.fallback_on_truncation:
            yield refuse(
                f"{self.profile} does not use TCP",
                "leave the profile out, or ask over UDP",
                "profile",
            )

    @rule
    def _server_speaks_the_transport(self) -> Faults:
        over_quic, own = isinstance(self.transport, WithQuic), self.shares_server is None
        if self.speaks_tls and self.answers.stateless:
            yield refuse("has no TLS", "leave one of them out", "answers.stateless")
        if self.speaks_tls and self.answers.speaks_no_tls(over_tcp=not over_quic):
            yield refuse(
                f"{self.answers.profile} does not speak TLS",
                _another_server(self.transport.kind if self.encrypts else "tls"),
                "answers.profile",
            )
        elif isinstance(self.transport, OverHttps) and own and not self.speaks_https:
            yield refuse(
                f"{self.answers.profile} was not captured over HTTPS",
                _another_server("https"),
                "answers.profile",
            )
        elif isinstance(self.transport, OverQuic) and own and not self.speaks_quic:
            yield refuse(
                f"{self.answers.profile} was not captured over QUIC",
                _another_server("quic"),
                "answers.profile",
            )
        elif isinstance(self.transport, OverHttp3) and own and not self.speaks_http3:
            yield refuse(
                f"{self.answers.profile} was not captured over HTTP/3",
                "leave the profile out",
                "answers.profile",
            )
        if self.encrypts and own and not self.answers.tcp:
            yield refuse("must be true for TLS", "leave it out", "answers.tcp")

    @rule
    def _early_data_are_possible(self) -> Faults:
        transport = self.transport
        if not self.asks_early or not isinstance(transport, ENCRYPTED):
            return
        if not transport.tls.resumes(self._known_tls):
            yield refuse(
                "needs a session to resume",
                "set transport.tls.resume to true, or leave it out",
                "transport.tls.early_data",
            )
        elif self.shares_server is None and not self.takes_early_data:
            yield refuse(
                "needs a server whose sessions allow it",
                "set answers.tls.early_data to true, or leave it out",
                "transport.tls.early_data",
            )

    @rule
    def _connections_are_possible(self) -> Faults:
        yield from self.transport.contradictions(self._known())
        if self.tcp.skip_handshake:
            yield refuse("is only for bulk traffic", "leave it out", "transport.tcp.skip_handshake")

    @rule
    def _connections_have_a_use(self) -> Faults:
        if self._udp is None or self.uses_tcp:
            return
        # The server's TCP settings may matter to other groups.
        of_connections = {*TcpUse.model_fields, "udp_between"} - {"tcp"}
        for key in sorted(of_connections & self._udp.model_fields_set):
            if getattr(self._udp, key) != OverUdp.model_fields[key].default:
                yield refuse(
                    "has no use, because these clients never ask over TCP",
                    "set transport.tcp_if_truncated or tcp_if_silent, or leave it out",
                    f"transport.{key}",
                )

    @rule
    def _lengths_are_given_once(self) -> Faults:
        if self.messages is not None and {"query_size", "reply_size"} & self.model_fields_set:
            yield refuse("excludes query_size and reply_size", "give one or the other", "messages")

    @rule
    def _server_is_described_once(self) -> Faults:
        if self.shares_server is None:
            return
        for key in ("answers", "service", "service_jitter_mean"):
            if key in self.model_fields_set and getattr(self, key) not in (0, Answers()):
                yield refuse(
                    f"belongs to the group with the server, {self.shares_server}",
                    "give it there, or leave shares_server out",
                    key,
                )

    @property
    def encrypts(self) -> bool:
        """Whether the clients ask over TLS or QUIC, with HTTP or without."""
        return isinstance(self.transport, ENCRYPTED)

    @property
    def asks_early(self) -> bool:
        """Whether the clients send queries as early data."""
        return isinstance(self.transport, ENCRYPTED) and self.transport.tls.early_data

    @property
    def keeps_connections(self) -> bool:
        """Whether later queries use the connections of earlier ones."""
        return self.transport.is_kept(self._known())

    @property
    def speaks_quic(self) -> bool:
        """Whether the group's server speaks QUIC."""
        return self.speaks_tls and self.answers.may_speak_quic

    @property
    def speaks_http3(self) -> bool:
        """Whether the group's server speaks HTTP/3."""
        return self.speaks_tls and self.answers.profile is None

    @property
    def speaks_https(self) -> bool:
        """Whether the group's server speaks HTTPS."""
        known = self.answers.known_tls
        return self.speaks_tls and (known is None or known.https_settings_bytes is not None)

    @property
    def speaks_tls(self) -> bool:
        """Whether the group's server speaks TLS."""
        return self.answers.tls is not None or self.encrypts

    @property
    def takes_early_data(self) -> bool:
        """Whether the sessions of the group's server allow early data."""
        return (self.answers.tls or TlsAnswers()).takes_early_data(self.answers.known_tls)

    @property
    def _known_tls(self) -> dns_profiles.ClientTls | None:
        """How the profile's client begins an encrypted connection; None if that is not known."""
        return captured(self._known(), self.transport.kind)

    @property
    def is_guessed(self) -> bool:
        """Whether the profile's client was not captured over the group's transport."""
        return self.encrypts and self.profile is not None and self._known_tls is None

    @property
    def _udp(self) -> OverUdp | None:
        """How the clients ask over UDP; None if they never do."""
        return self.transport if isinstance(self.transport, OverUdp) else None

    @property
    def tcp(self) -> Tcp:
        """TCP settings of both ends."""
        return self.transport.tcp if isinstance(self.transport, TcpUse) else Tcp()

    def _known(self) -> dns_profiles.Client | None:
        return None if self.profile is None else dns_profiles.client(self.profile)

    @property
    def _edns_bytes(self) -> int:
        """The bytes that EDNS adds to queries."""
        known = self._known()
        of_profile = known.query_extra_bytes if known else 0
        # Padding is an option of an OPT record.
        edns_size = None if self._udp is None else self._udp.edns_size
        needs_opt = edns_size is not None or self._pads
        return max(of_profile, OPT_BYTES if needs_opt else 0)

    @property
    def _asking(self) -> Asking:
        """The EDNS of queries for a measured zone; without a profile, as it was measured."""
        known = self._known()
        if known is None:
            return Asking()
        return Asking(self._edns_bytes, known.dnssec_ok)

    @property
    def _pads(self) -> bool:
        transport = self.transport
        return isinstance(transport, ENCRYPTED) and bool(transport.tls.pads(self._known_tls))

    @property
    def has_connections(self) -> bool:
        """Whether a query may go over a connection."""
        return self.uses_tcp

    @property
    def uses_tcp(self) -> bool:
        """Whether a query may go over TCP."""
        if self._udp is None:
            return True
        known = self._known()
        return self._udp.turns_if_silent(known) or self._udp.turns_if_truncated(
            known, is_limited=self._is_limited
        )

    @property
    def _is_limited(self) -> bool:
        """Whether the server limits the length of replies over UDP, or may do so."""
        limits = (self.answers.udp_size, self.answers.profile, self.shares_server)
        return any(limit is not None for limit in limits)

    @property
    def limit(self) -> int | None:
        """When a query is given up whatever attempts are left, in picoseconds; None: never.

        Examples:
            >>> dns = Dns(name="d", client="c", server="s", queries=1, profile="unbound")
            >>> dns.limit
            1900000000000
        """
        known = self._known()
        if self.gives_up is not None or known is None or known.overall_limit_s is None:
            return self.gives_up
        return round(known.overall_limit_s * SECOND)

    @property
    def timeouts(self) -> list[int]:
        """Timeouts of successive attempts over UDP, in picoseconds; none without UDP.

        Examples:
            >>> dns = Dns(name="d", client="c", server="s", queries=1)
            >>> len(dns.timeouts)
            5
        """
        return [] if self._udp is None else self._udp.timeouts(self._known())

    @property
    def places(self) -> int:
        """How many queries of its own can be under way at once."""
        if self.queries == 0:
            return 0
        return self.workers if self.arrivals is None else self.arrivals.outstanding

    @property
    def asked(self) -> int:
        """The most queries that all workers may ask, including those to warm up."""
        if not self.queries:
            return QUERIES.most
        asked: int = (self.warm_up + self.queries) * (1 if self.arrivals else self.workers)
        return asked

    def shortest_packets(self) -> tuple[int, int]:
        """IP packet lengths of the shortest query and reply over UDP."""
        if self.messages is None:
            return self.query_size + self._edns_bytes, self.reply_size
        query, reply = shortest(self.messages, self._asking)
        payload = (self._udp or OverUdp()).payload(self._known())
        # A reply that does not fit the client is truncated.
        longest = 65_535 - BELOW_DNS
        return (
            min(query, longest) + BELOW_DNS,
            min(reply, payload, longest) + BELOW_DNS,
        )

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """Each key below the group that names a node, and the node."""
        for key, route in (("route", self.route), ("route_back", self.route_back)):
            yield from ((f"{key}[{index}]", name) for index, name in enumerate(route or ()))
        yield "client", self.client
        yield "server", self.server

    def legs(self) -> Iterator[Leg]:
        """The path of the queries and that of the replies."""
        yield Leg(self.client, self.server, self.route, "route", "server")
        yield Leg(self.server, self.client, self.route_back, "route_back", "server")

    def beginnings(self) -> tuple[int, int]:
        """When the first and the last worker begin, at the latest."""
        return self.start, self.start + self.spread

    @property
    def wants_ecn(self) -> bool:
        """Whether some of its packets can be marked: those of TCP or QUIC."""
        if isinstance(self.transport, WithQuic):
            return self.transport.quic.wants_ecn
        return self.uses_tcp and self.tcp.wants_ecn

    def amounts(self) -> Iterator[Amount]:
        """Its workers, or the queries that can be under way at once, and all queries."""
        if self.arrivals is None:
            yield Amount(self.places, WORKERS, "workers")
        else:
            yield Amount(self.places, PLACES, "arrivals.outstanding")
        if self.queries:
            yield Amount(self.asked, QUERIES, "queries", "warm_up or workers")

    def recorded(self, duration: int) -> Iterator[Amount]:
        """Queries that arrive in a run of this duration."""
        if self.arrivals is not None and self.queries is None:
            arrive = max(duration - self.start, 0) // self.arrivals.interval
            yield Amount(arrive, QUERIES, "arrivals.per_second", "or give queries")

    def codepoints(self) -> tuple[int, ...]:
        """Those of the workers and of the server."""
        return self.dscp, self.answers.dscp

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """Two applications: the workers, and then the server that they ask."""
        server = self._server_position(planner)
        known = self._known()
        udp = None
        if self._udp is not None:
            udp = self._udp.over_udp(known, is_limited=self._is_limited)
        if self.messages is None:
            sizes = fixed_plan(self.query_size + self._edns_bytes, self.reply_size)
        else:
            sizes = messages_plan(self.messages, self._asking)
        tcp = None
        if self.uses_tcp:
            fast_open = self.transport.uses_fast_open(known)
            ends = planner.tcp_settings(self._client_tcp, fast_open=fast_open)
            tcp = self.transport.plan(known, ends)
        client = self.application(
            "dns-client",
            server=server,
            there=planner.path(self.client, self.server, self.route),
            back=planner.path(self.server, self.client, self.route_back),
            start=self.start,
            arrivals=None if self.arrivals is None else self.arrivals.plan(),
            sizes=sizes,
            gives_up=self.limit,
            udp=udp,
            tcp=tcp,
            **self.plain() | {"workers": self.places},
        )
        if self.shares_server is not None:
            return [client]
        nagle = self.answers.uses_nagle()
        if nagle is None and self.speaks_tls and self.tcp.nagle is None:
            # Tickets would come before the first reply of each connection.
            nagle = False
        https_nagle = nagle
        known_tls = self.answers.known_tls
        if self.answers.nagle is None and known_tls is not None:
            https_nagle = known_tls.https_nagle
        ends = self._server_tcp(planner, nagle)
        https_ends = self._server_tcp(planner, https_nagle) if self.speaks_https else ends
        quic = self.transport.quic if isinstance(self.transport, WithQuic) else Quic()
        return [
            client,
            self.application(
                "dns-server",
                service=self.service,
                service_jitter_mean=self.service_jitter_mean,
                **self.answers.plan(ends, https_ends, quic, over_tls=self.speaks_tls),
            ),
        ]

    def _server_tcp(self, planner: Planner, nagle: bool | None) -> int:
        """The index of the server's TCP settings, with `nagle` or, if None, as the group says."""
        of_server = self.tcp if nagle is None else self.tcp.model_copy(update={"nagle": nagle})
        mss = self.answers.mss
        if mss is not None and self.tcp.mss is None:
            of_server = of_server.model_copy(update={"mss": mss})
        return planner.tcp_settings(of_server, fast_open=self.answers.fast_open)

    @property
    def _client_tcp(self) -> Tcp:
        """The client's TCP settings; with TLS, most programs turn Nagle's algorithm off."""
        if not self.encrypts or self.tcp.nagle is not None:
            return self.tcp
        nagle = bool(self._known_tls and self._known_tls.nagle)
        return self.tcp.model_copy(update={"nagle": nagle})

    def _server_position(self, planner: Planner) -> int:
        """The index of the server's application: after this client's, or that of another group."""
        if self.shares_server is None:
            return planner.position + 1
        return planner.find(self.shares_server, "dns-server")


def _another_server(transport: str) -> str:
    """The hint that names the servers that were captured over a transport that encrypts."""

    def knows(name: str) -> bool:
        if transport == "quic":
            return dns_profiles.server(name).quic is not None
        tls = dns_profiles.server(name).tls
        return tls is not None and (transport == "tls" or tls.https_settings_bytes is not None)

    *others, last = [name for name in dns_profiles.servers() if knows(name)]
    known = f"{', '.join(others)} or {last}" if others else last
    return f"name {known}, or leave the profile out"
