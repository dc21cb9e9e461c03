"""The factors of the study. Each level is one line in a table.

A transport has a name and sets keys of `[[dns]]`. A place is a network with its own rate, users and
queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from narrows.study.dns_transport.network import network


@dataclass(frozen=True)
class Level:
    """One value of a factor."""

    name: str
    title: str
    value: Any
    """The value of the factor's key, in TOML's types."""


@dataclass(frozen=True)
class Transport:
    """A transport for DNS: a line in the table below."""

    name: str
    title: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `[[dns]]` that it adds to the network's."""
    bench: Mapping[str, str] = field(default_factory=dict)
    """The arm of `make bench-gateway` that measured the server's cost of a query, by the transport
    that carried the query; empty without a measurement."""
    unmarked: str = ""
    """The same transport without ECN; empty for one that has none."""


def _over(kind: str, **keys: Any) -> dict[str, Any]:
    return {"transport": {"kind": kind, **keys}}


_ECN = {"ecn": True}
# ECN++: routers can mark SYN-ACKs, FINs and retransmissions too.
_PLUS = {"ecn": "plus-plus"}
# L4S: packets carry ECT(1), and Prague answers the share of marks.
_L4S = {"congestion": "prague"}


def _marked(
    of: Transport, how: Mapping[str, Any], words: str, bench: Mapping[str, str] | None = None
) -> Transport:
    """A transport whose packets routers can mark."""
    settings = "tcp" if of.keys["transport"]["kind"] in ("tcp", "tls", "https") else "quic"
    keys = {**of.keys, "transport": {**of.keys["transport"], settings: how}}
    name = f"{of.name}-{words.lower()}"
    return Transport(name, f"{of.title} + {words}", keys, bench or {}, of.name)


_EARLY = {"resume": True, "early_data": True}
_TAKES_EARLY = {"answers": {"tls": {"early_data": True}}}

# Windows' five attempts. RFC 5452 asks for a new port for each, so a per-flow queue does not keep a
# client in the same bucket forever. Replies may have any length and come in fragments.
_UDP = Transport("udp", "UDP", _over("udp", retry="windows", new_port=True), {"udp": "udp"})
# As DNS flag day 2020 asks: TCP after a truncated reply, or after two attempts without a reply.
_UDP_TCP = Transport(
    "udp-tcp",
    "UDP then TCP",
    _over(
        "udp",
        retry=["1 s", "2 s"],
        new_port=True,
        edns_size="1232 B",
        tcp_if_truncated=True,
        tcp_if_silent=True,
    ),
    {"udp": "udp", "tcp": "tcp"},
)
_TCP_NEW = Transport("tcp-new", "TCP new", _over("tcp"), {"tcp": "tcp"})
_TCP_KEPT = Transport("tcp-kept", "TCP kept", _over("tcp", reuse=True))
# The gateway never accepts ECN in a SYN.
_TCP_STATELESS = Transport(
    "tcp-stateless",
    "TCP stateless",
    {**_over("tcp"), "answers": {"stateless": True}},
    {"tcp": "gateway"},
)
_TLS_NEW = Transport("tls-new", "TLS new", _over("tls"))
_TLS_EARLY = Transport("tls-early", "TLS early data", _over("tls", tls=_EARLY) | _TAKES_EARLY)
_TLS_KEPT = Transport("tls-kept", "TLS kept", _over("tls", reuse=True))
_HTTPS_NEW = Transport("https-new", "HTTPS new", _over("https"))
_HTTPS_KEPT = Transport("https-kept", "HTTPS kept", _over("https", reuse=True))
_QUIC_NEW = Transport("quic-new", "QUIC new", _over("quic"))
_QUIC_EARLY = Transport("quic-early", "QUIC 0-RTT", _over("quic", tls=_EARLY) | _TAKES_EARLY)
_QUIC_KEPT = Transport("quic-kept", "QUIC kept", _over("quic", reuse=True))
_HTTP3_NEW = Transport("http3-new", "HTTP/3 new", _over("http3"))
_HTTP3_EARLY = Transport("http3-early", "HTTP/3 0-RTT", _over("http3", tls=_EARLY) | _TAKES_EARLY)
_HTTP3_KEPT = Transport("http3-kept", "HTTP/3 kept", _over("http3", reuse=True))

TRANSPORTS: tuple[Transport, ...] = (
    _UDP,
    _UDP_TCP,
    _TCP_NEW,
    _marked(_TCP_NEW, _PLUS, "ECN++", _TCP_NEW.bench),
    _TCP_STATELESS,
    _TCP_KEPT,
    _marked(_TCP_KEPT, _ECN, "ECN"),
    _marked(_TCP_KEPT, _L4S, "L4S"),
    _TLS_NEW,
    _marked(_TLS_NEW, _ECN, "ECN"),
    _TLS_EARLY,
    _TLS_KEPT,
    _marked(_TLS_KEPT, _ECN, "ECN"),
    _marked(_TLS_KEPT, _L4S, "L4S"),
    _HTTPS_NEW,
    _HTTPS_KEPT,
    _marked(_HTTPS_KEPT, _ECN, "ECN"),
    _marked(_HTTPS_KEPT, _L4S, "L4S"),
    _QUIC_NEW,
    _marked(_QUIC_NEW, _ECN, "ECN"),
    _marked(_QUIC_NEW, _L4S, "L4S"),
    _QUIC_EARLY,
    _marked(_QUIC_EARLY, _ECN, "ECN"),
    _QUIC_KEPT,
    _marked(_QUIC_KEPT, _ECN, "ECN"),
    _marked(_QUIC_KEPT, _L4S, "L4S"),
    _HTTP3_NEW,
    _HTTP3_EARLY,
    _HTTP3_KEPT,
    _marked(_HTTP3_KEPT, _ECN, "ECN"),
    _marked(_HTTP3_KEPT, _L4S, "L4S"),
)


@dataclass(frozen=True, eq=False)
class Place:
    """A network whose bottleneck somebody owns."""

    name: str
    title: str
    """In a sentence, after "behind the queues of"."""
    rate: str
    """Of the bottleneck."""
    duration: str
    """Of a run: until nearly all clients have asked all their queries."""
    downloads: int
    """Connections of the load."""
    dns: Mapping[str, Any]
    """Keys of `[[dns]]` in place of the network's: how many clients ask, and how often."""
    queues: tuple[Level, ...]


# Paper H's sizes for 200 ms at 10 Mbit/s (python/narrows/reproduce/harhalakis_2011).
_BYTES = "137500 B"


def _red(ecn: bool) -> dict[str, Any]:
    return {
        "kind": "red",
        "limit": "250000 B",
        "min": "12374 B",
        "max": "137374 B",
        "avpkt": "1400 B",
        "burst": 38,
        "probability": 0.1,
        "bandwidth": "10 Mbit/s",
        "ecn": ecn,
    }


_DNS_FIRST = {
    "kind": "prio",
    "bands": [
        {
            "name": "dns",
            # Ports 53 and 853. DNS over HTTPS shares port 443 with everything else.
            "match": [{"port": 53}, {"port": 853}],
            "queue": {"kind": "pfifo", "limit": 100},
        },
        {"name": "rest", "queue": {"kind": "bfifo", "limit": _BYTES}},
    ],
}

# Linux's defaults. Of these, FQ-CoDel, CAKE and DualPI2 mark.
_CODEL = Level("codel", "CoDel", {"kind": "codel"})
_PIE = Level("pie", "PIE", {"kind": "pie"})
_FQ_CODEL = Level("fq-codel", "FQ-CoDel", {"kind": "fq-codel"})
_FQ_PIE = Level("fq-pie", "FQ-PIE", {"kind": "fq-pie"})
_CAKE = Level("cake", "CAKE", {"kind": "cake"})
_DUALPI2 = Level("dualpi2", "DualPI2", {"kind": "dualpi2"})

MARKING = frozenset({"red-ecn", "fq-codel", "cake", "dualpi2"})
"""The queues that mark packets. Behind the others, ECN on DNS changes nothing."""

PLACES: tuple[Place, ...] = (
    Place(
        "home",
        "a home",
        "20 Mbit/s",
        "70 s",
        4,
        {"workers": 8, "queries": 30, "think_mean": "1 s", "start": "10 s"},
        (
            # 200 ms, as modems have.
            Level("fifo", "FIFO", {"kind": "bfifo", "limit": "500 kB"}),
            _FQ_CODEL,
            _CAKE,
            _DUALPI2,
        ),
    ),
    Place(
        "cafe",
        "a café",
        "10 Mbit/s",
        "90 s",
        20,
        {"workers": 40, "start": "20 s"},
        (
            # Linux's default length for a network card: 1.2 s.
            Level("fifo", "FIFO", {"kind": "pfifo", "limit": 1000}),
            _FQ_CODEL,
            _CAKE,
        ),
    ),
    Place(
        "operator",
        "an operator",
        "10 Mbit/s",
        "100 s",
        120,
        {},
        (
            Level("fifo", "FIFO", {"kind": "bfifo", "limit": _BYTES}),
            Level("red", "RED", _red(ecn=False)),
            Level("red-ecn", "RED with ECN", _red(ecn=True)),
            _CODEL,
            _PIE,
            _FQ_CODEL,
            _CAKE,
            _FQ_PIE,
            _DUALPI2,
            Level("drr", "DRR", {"kind": "drr", "limit": 91}),
            Level("prio", "Priority for DNS", _DNS_FIRST),
        ),
    ),
)
OPERATOR = PLACES[-1]
"""The place with every queue."""


def _downloads(name: str, title: str, ecn_share: float | None, congestion: str) -> Level:
    group: dict[str, Any] = {
        "kind": "bulk",
        "name": "background",
        "sender": "downloads",
        "receiver": "home",
        "opener": "receiver",
        "spread": "1 s",
        "tcp": {"profile": "linux-6", "congestion": congestion},
    }
    if ecn_share is not None:
        group["ecn_share"] = ecn_share
    return Level(name, title, [group])


LOADS: tuple[Level, ...] = (
    _downloads("cubic", "CUBIC", 0.0, "cubic"),
    _downloads("cubic-ecn", "CUBIC with ECN", 1.0, "cubic"),
    _downloads("bbr", "BBR", 0.0, "bbr"),
    # Prague always negotiates ECN.
    _downloads("prague", "Prague", None, "prague"),
    Level("none", "no other load", []),
)
"""What other people's downloads use; a place says how many there are."""

ROUND_TRIPS: tuple[Level, ...] = (
    Level("20ms", "20 ms", "10 ms"),
    Level("50ms", "50 ms", "25 ms"),
    Level("100ms", "100 ms", "50 ms"),
)
"""The round trips; the value is the one-way delay."""

REPLIES: tuple[Level, ...] = tuple(
    Level(f"{size}B", f"{size} B", {"query": "40 B", "reply": f"{size} B"})
    for size in (100, 1232, 3000)
)

PATHS: tuple[Level, ...] = (
    Level("clean", "clean", {}),
    Level("fragments", "drops fragments", {"middlebox": {"drop_fragments": True}}),
    Level("512", "drops DNS datagrams above 512 B", {"middlebox": {"drop_dns_above": "512 B"}}),
)


@dataclass(frozen=True)
class Factor:
    """A key of the scenario that the study varies, and its levels; the first level is the base."""

    name: str
    title: str
    key: str
    levels: tuple[Level, ...]


def transport_levels(*groups: Mapping[str, Any]) -> tuple[Level, ...]:
    """The transports as values of `dns`, with the other keys of its groups."""
    return tuple(
        Level(line.name, line.title, [_asking(group, line) for group in groups])
        for line in TRANSPORTS
    )


def _asking(group: Mapping[str, Any], line: Transport) -> dict[str, Any]:
    """A group with a transport; those who ask for a page's names share a persistent connection."""
    keys = {**group, **line.keys}
    if keys.get("queries") == 0 and line.keys["transport"].get("reuse"):
        keys["transport"] = {**line.keys["transport"], "shared": True}
    return keys


@cache
def factors(place: Place = OPERATOR) -> tuple[Factor, ...]:
    """All factors at a place. A later key may lie inside a table that an earlier one sets."""
    stubs, names = network()["dns"]
    (pages,) = network()["traffic"]
    start = {"start": place.dns.get("start", stubs["start"])}
    loads = [
        Level(
            load.name,
            load.title,
            [*({**each, "connections": place.downloads} for each in load.value), pages | start],
        )
        for load in LOADS
    ]
    return (
        Factor("transport", "transport", "dns", transport_levels(stubs | place.dns, names)),
        Factor("queue", "queue", "links.bottleneck.queue", place.queues),
        Factor("load", "load", "traffic", tuple(loads)),
        Factor("path", "path", "links.internet.backward", PATHS),
        Factor("round_trip", "round trip", "links.internet.delay", ROUND_TRIPS),
        Factor("reply", "reply", "dns.stubs.messages", REPLIES),
    )


def transport(name: str) -> Transport:
    """The transport of this name."""
    return next(line for line in TRANSPORTS if line.name == name)
