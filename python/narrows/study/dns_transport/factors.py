"""The factors of the study. Each level is one line in a table.

A transport has a name and sets keys of `[[dns]]`.
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
    ecn_of: str = ""
    """The same transport without ECN."""


def _over(kind: str, **keys: Any) -> dict[str, Any]:
    return {"transport": {"kind": kind, **keys}}


def _ecn(
    name: str,
    title: str,
    of: str,
    keys: Mapping[str, Any],
    ecn: bool | str = True,
    **more: Any,
) -> Transport:
    """A transport with ECN switched on in TCP's or QUIC's settings."""
    settings = "quic" if keys["transport"]["kind"] == "quic" else "tcp"
    marked = {**keys, "transport": {**keys["transport"], settings: {"ecn": ecn}}}
    return Transport(name, title, marked, ecn_of=of, **more)


_RESUMED = {"resume": True}
_EARLY = {"resume": True, "early_data": True}
_TAKES_EARLY = {"answers": {"tls": {"early_data": True}}}

_TCP = _over("tcp")
_TCP_KEPT = _over("tcp", reuse=True)
_TLS = _over("tls")
_TLS_RESUMED = _over("tls", tls=_RESUMED)
_TLS_EARLY = _over("tls", tls=_EARLY) | _TAKES_EARLY
_TLS_KEPT = _over("tls", reuse=True)
_HTTPS = _over("https")
_HTTPS_KEPT = _over("https", reuse=True)
_QUIC = _over("quic")
_QUIC_EARLY = _over("quic", tls=_EARLY) | _TAKES_EARLY
_QUIC_KEPT = _over("quic", reuse=True)

TRANSPORTS: tuple[Transport, ...] = (
    # Windows' five attempts. RFC 5452 asks for a new port for each, so a per-flow queue does not
    # keep a client in the same bucket forever. Replies may have any length and come in fragments.
    Transport("udp", "UDP", _over("udp", retry="windows", new_port=True), {"udp": "udp"}),
    # As DNS flag day 2020 asks: TCP after a truncated reply, or after two attempts without a reply.
    Transport(
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
    ),
    Transport("tcp-new", "TCP new", _TCP, {"tcp": "tcp"}),
    _ecn("tcp-new-ecn", "TCP new + ECN", "tcp-new", _TCP, bench={"tcp": "tcp"}),
    # ECN++: routers can mark SYN-ACKs, FINs and retransmissions too.
    _ecn("tcp-new-ecn++", "TCP new + ECN++", "tcp-new", _TCP, "plus-plus", bench={"tcp": "tcp"}),
    Transport("tcp-kept", "TCP kept", _TCP_KEPT),
    _ecn("tcp-kept-ecn", "TCP kept + ECN", "tcp-kept", _TCP_KEPT),
    # There is no line with ECN, because the gateway never accepts ECN in a SYN.
    Transport(
        "tcp-stateless",
        "TCP stateless",
        {**_TCP, "answers": {"stateless": True}},
        {"tcp": "gateway"},
    ),
    Transport("tls-new", "TLS new", _TLS),
    _ecn("tls-new-ecn", "TLS new + ECN", "tls-new", _TLS),
    Transport("tls-resumed", "TLS resumed", _TLS_RESUMED),
    _ecn("tls-resumed-ecn", "TLS resumed + ECN", "tls-resumed", _TLS_RESUMED),
    Transport("tls-early", "TLS early data", _TLS_EARLY),
    _ecn("tls-early-ecn", "TLS early data + ECN", "tls-early", _TLS_EARLY),
    Transport("tls-kept", "TLS kept", _TLS_KEPT),
    _ecn("tls-kept-ecn", "TLS kept + ECN", "tls-kept", _TLS_KEPT),
    Transport("https-new", "HTTPS new", _HTTPS),
    _ecn("https-new-ecn", "HTTPS new + ECN", "https-new", _HTTPS),
    Transport("https-kept", "HTTPS kept", _HTTPS_KEPT),
    _ecn("https-kept-ecn", "HTTPS kept + ECN", "https-kept", _HTTPS_KEPT),
    Transport("quic-new", "QUIC new", _QUIC),
    _ecn("quic-new-ecn", "QUIC new + ECN", "quic-new", _QUIC),
    Transport("quic-early", "QUIC 0-RTT", _QUIC_EARLY),
    _ecn("quic-early-ecn", "QUIC 0-RTT + ECN", "quic-early", _QUIC_EARLY),
    Transport("quic-kept", "QUIC kept", _QUIC_KEPT),
    _ecn("quic-kept-ecn", "QUIC kept + ECN", "quic-kept", _QUIC_KEPT),
)

_BYTES = "137500 B"
"""Paper H's FIFO for 200 ms."""


def _red(ecn: bool) -> dict[str, Any]:
    # Paper H's thresholds for 200 ms (python/narrows/reproduce/harhalakis_2011).
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

QUEUES: tuple[Level, ...] = (
    Level("fifo", "FIFO", {"kind": "bfifo", "limit": _BYTES}),
    # The same size in packets of 1514 bytes. A queue that counts bytes may have room for a short
    # packet but none for a long one. This one treats all packets alike, as Linux's default does.
    Level("pfifo", "FIFO of packets", {"kind": "pfifo", "limit": 91}),
    Level("red", "RED", _red(ecn=False)),
    Level("red-ecn", "RED with ECN", _red(ecn=True)),
    # Linux's defaults: CoDel and PIE without ECN, FQ-CoDel with it.
    Level("codel", "CoDel", {"kind": "codel"}),
    Level("pie", "PIE", {"kind": "pie"}),
    Level("fq-codel", "FQ-CoDel", {"kind": "fq-codel"}),
    Level("drr", "DRR", {"kind": "drr", "limit": 91}),
    Level("prio", "Priority for DNS", _DNS_FIRST),
)

_DOWNLOADS: dict[str, Any] = {
    "kind": "bulk",
    "name": "background",
    "sender": "downloads",
    "receiver": "home",
    "connections": 120,
    "opener": "receiver",
    "spread": "1 s",
    "tcp": {"profile": "linux-6", "congestion": "cubic"},
}
# Paper K has 500 sources at 500 Mbit/s: one source per Mbit/s.
_BURSTS: dict[str, Any] = {
    "kind": "on-off",
    "name": "background",
    "sender": "downloads",
    "receiver": "home",
    "connections": 10,
    "burst": "384 kB",
    "idle_mean": "2 s",
    "tcp": {"congestion": "reno"},
}

LOADS: tuple[Level, ...] = (
    Level("downloads-ecn", "120 downloads with ECN", [{**_DOWNLOADS, "ecn_share": 1.0}]),
    Level("downloads", "120 downloads", [{**_DOWNLOADS, "ecn_share": 0.0}]),
    Level("bursts", "bursts", [_BURSTS]),
    Level("none", "no other load", []),
)

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


def _transport_levels() -> tuple[Level, ...]:
    (group,) = network()["dns"]
    return tuple(Level(line.name, line.title, [{**group, **line.keys}]) for line in TRANSPORTS)


@dataclass(frozen=True)
class Factor:
    """A key of the scenario that the study varies, and its levels; the first level is the base."""

    name: str
    title: str
    key: str
    levels: tuple[Level, ...]


@cache
def factors() -> tuple[Factor, ...]:
    """All factors. A later key may lie inside a table that an earlier one sets."""
    return (
        Factor("transport", "transport", "dns", _transport_levels()),
        Factor("queue", "queue", "links.bottleneck.queue", QUEUES),
        Factor("load", "load", "traffic", LOADS),
        Factor("path", "path", "links.internet.backward", PATHS),
        Factor("round_trip", "round trip", "links.internet.delay", ROUND_TRIPS),
        Factor("reply", "reply", "dns.stubs.messages", REPLIES),
    )


def transport(name: str) -> Transport:
    """The transport of this name."""
    return next(line for line in TRANSPORTS if line.name == name)
