"""Ordinary clients and each server: clients get the same answers as from the kernel's TCP."""

from __future__ import annotations

import base64
import itertools
import re
from pathlib import Path

import dns.message
import dns.query
import dns.rrset
import dns.tsig
import dns.zone
import pytest

from . import zones
from .clients import ask, ask_udp, connect, prefixed, query, receive
from .conftest import ARMS, KINDS, Lab
from .servers import AUTHORITATIVE


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each server."""
    return str(request.param)


def test_the_zone_has_replies_of_these_sizes(lab: Lab, kind: str) -> None:
    """Some servers add the zone's NS records."""
    for size in zones.SIZES:
        reply = ask(lab.network.client, lab.address(kind, "kernel"), query(zones.size_name(size)))
        assert size <= len(reply) < size + 60


@pytest.mark.parametrize("edns", [None, 512, 1232, 65535], ids=lambda size: f"edns-{size}")
def test_replies_of_every_size_are_byte_identical(
    lab: Lab, kind: str, version: int, edns: int | None
) -> None:
    for size in zones.SIZES:
        question = query(zones.size_name(size), edns=edns)
        replies = [
            ask(lab.network.client, lab.address(kind, arm, version), question) for arm in ARMS
        ]
        assert replies[0] == replies[1]


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("z.test", "SOA"),
        ("z.test", "NS"),
        ("a.z.test", "AAAA"),
        ("alias.z.test", "A"),
        ("mx.z.test", "MX"),
        ("no.z.test", "A"),
        ("a.z.test", "TXT"),
        ("x.w.z.test", "TXT"),
        ("elsewhere.example", "A"),
        ("h1.signed.test", "A"),
        ("x.w.signed.test", "TXT"),
        ("no.signed.test", "A"),
        ("signed.test", "DNSKEY"),
        ("signed.test", "ANY"),
    ],
)
def test_replies_of_every_kind_are_byte_identical(
    lab: Lab, kind: str, name: str, type_: str
) -> None:
    if kind == "unbound" and name == "elsewhere.example":
        return  # it would ask the root servers
    for edns, dnssec in ((None, False), (1232, False), (1232, True), (4096, True)):
        question = query(name, type_, edns=edns, dnssec=dnssec)
        replies = [ask(lab.network.client, lab.address(kind, arm), question) for arm in ARMS]
        assert replies[0] == replies[1]


def test_records_of_a_reply_are_never_mixed(lab: Lab, kind: str, arm: str) -> None:
    """The server may change the order of the set's records."""
    for _ in range(5):
        reply = ask(lab.network.client, lab.address(kind, arm), query(f"many.{zones.ZONE}"))
        assert len(dns.message.from_wire(reply).answer[0]) == 15


def test_udp_is_what_it_was(lab: Lab, kind: str, version: int) -> None:
    for size, edns in itertools.product((60, 300, 1200, 4000), (None, 1232, 4096)):
        question = query(zones.size_name(size), edns=edns)
        client = lab.network.client
        replies = [ask_udp(client, lab.address(kind, arm, version), question) for arm in ARMS]
        assert replies[0] is not None
        assert replies[0] == replies[1]


@pytest.mark.parametrize("kind", AUTHORITATIVE)
def test_tsig(lab: Lab, kind: str, version: int, arm: str) -> None:
    """Signed queries get signed replies (RFC 8945), which the gateway must not touch."""
    secret = base64.b64decode(zones.KEY_SECRET)
    key = dns.tsig.Key(zones.KEY_NAME, secret, dns.tsig.HMAC_SHA256)
    for size in (300, 4000):
        message = dns.message.make_query(zones.size_name(size), "TXT")
        message.use_tsig(key)
        with lab.network.client.inside():
            reply = dns.query.tcp(message, lab.address(kind, arm, version), timeout=5)
        assert reply.had_tsig
        assert reply.rcode() == 0


@pytest.mark.parametrize("kind", AUTHORITATIVE)
def test_zone_transfers(lab: Lab, kind: str, version: int, arm: str) -> None:
    zone = dns.zone.Zone(zones.TRANSFER)
    with lab.network.client.inside():
        dns.query.inbound_xfr(lab.address(kind, arm, version), zone, timeout=5)
    assert len(zone.nodes) == 1502


@pytest.mark.parametrize("kind", AUTHORITATIVE)
def test_incremental_transfers(lab: Lab, kind: str, arm: str) -> None:
    """A client with the server's serial gets one SOA; one with an older serial gets the zone."""
    for serial, records in ((2026, 1), (1, 1500)):
        message = dns.message.make_query(zones.TRANSFER, "IXFR")
        soa = f"ns.{zones.TRANSFER}. hostmaster.{zones.TRANSFER}. {serial} 1 1 1 1"
        owner = f"{zones.TRANSFER}."
        message.authority.append(dns.rrset.from_text(owner, 300, "IN", "SOA", soa))
        found = 0
        with connect(lab.network.client, lab.address(kind, arm)) as stream:
            stream.sendall(prefixed(message.to_wire()))
            while found < records:
                reply = dns.message.from_wire(receive(stream), one_rr_per_rrset=True)
                assert reply.rcode() == 0
                found += len(reply.answer)
        assert found >= records


def test_dig_asks_again_over_tcp_where_udp_is_truncated(lab: Lab, arm: str) -> None:
    """BIND limits its UDP replies to 1232 bytes."""
    words = ["dig", "+nocookie", "+time=5", f"@{lab.address('bind', arm)}", "TXT"]
    shown = lab.network.client.run(*words, zones.size_name(4000))
    assert "Truncated, retrying in TCP mode" in shown
    assert "MSG SIZE  rcvd: 40" in shown


def test_dig(lab: Lab, kind: str, version: int) -> None:
    """Its output without times and IDs, with its cookies and several queries on a connection."""
    shown = []
    for arm in ARMS:
        words = ["dig", "+tcp", "+keepopen", "+time=5", "+nocookie", "+nostats", "+dnssec"]
        names = [zones.size_name(size) for size in (60, 300, 4000, 60)]
        lines = lab.network.client.run(
            *words,
            f"@{lab.address(kind, arm, version)}",
            *itertools.chain(*(("-t", "TXT", name) for name in names)),
        ).splitlines()
        shown.append([re.sub(r"id: \d+", "", line) for line in lines if "DiG" not in line])
    assert shown[0] == shown[1]
    assert sum("status: NOERROR" in line for line in shown[0]) == 4


def test_kdig(lab: Lab, kind: str, version: int) -> None:
    shown = []
    for arm in ARMS:
        words = ["kdig", "+tcp", "+keepopen", "+timeout=5", "+nostats", "+noheader", "+dnssec"]
        names = [zones.size_name(size) for size in (60, 300, 4000, 60)]
        address = lab.address(kind, arm, version)
        asked = itertools.chain(*((name, "TXT") for name in names))
        lines = lab.network.client.run(*words, f"@{address}", *asked).splitlines()
        shown.append([line for line in lines if address not in line])
    assert shown[0] == shown[1]
    assert sum("ANSWER SECTION" in line for line in shown[0]) == 4


@pytest.mark.parametrize("long", [False, True], ids=["a-connection-each", "long-connections"])
def test_dnsperf(lab: Lab, kind: str, arm: str, long: bool, tmp_path: Path) -> None:
    """Nothing is lost, on connections of one query or on ten that stay open."""
    names = [f"{zones.size_name(size)} TXT" for size in (60, 300, 1200, 2000, 300, 60)]
    asked = tmp_path / "queries"
    asked.write_text("\n".join(names) + "\n")
    words = ["dnsperf", "-m", "tcp", "-s", lab.address(kind, arm), "-d", str(asked), "-t", "10"]
    words += ["-c", "10", "-q", "10", "-n", "50" if long else "10"]
    words += [] if long else ["-O", "num-queries-per-conn=1"]
    shown = lab.network.client.run(*words)
    figures = dict(re.findall(r"Queries (sent|completed|lost):\s+(\d+)", shown))
    assert figures["sent"] == ("300" if long else "60"), shown
    assert figures["completed"] == figures["sent"], shown
