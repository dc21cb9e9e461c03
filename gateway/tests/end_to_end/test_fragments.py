"""Queries in IP fragments: the kernel's TCP takes their connections over (PROTOCOL.md)."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path

import pytest

from tests.network import network

from . import gateway, servers, zones
from .clients import ask, prefixed, query
from .conftest import SMALL, Lab, PeerMaker, laboratory
from .segments import ACK, MODULUS, PSH, Peer, Tap, fragments, tap
from .test_firewalls import STRICT, rule

LONG = query(zones.size_name(16000))
"""A name whose reply only the kernel's TCP can send."""
SPLITS = (24, 32, 40)
"""Within the options of TCP, behind them, and in the query."""


def send(client: Peer, payload: bytes, at: int, backwards: bool = False) -> None:
    """Sends a segment in two fragments, once."""
    parts = fragments(client.segment(payload, ACK | PSH), at)
    client.tap.send(*(reversed(parts) if backwards else parts))
    client.seq = (client.seq + len(payload)) % MODULUS


@pytest.mark.parametrize("backwards", [False, True], ids=["in-order", "backwards"])
def test_the_first_query(
    lab: Lab, peer: PeerMaker, arm: str, version: int, backwards: bool
) -> None:
    """It comes once, and so do those behind it, whole or in fragments."""
    answer = ask(lab.network.client, lab.address("nsd", "kernel", version), SMALL)
    for at in SPLITS:
        adopted = lab.counter("adopted")
        client = peer(version=version)
        client.connect()
        send(client, prefixed(SMALL), at, backwards)
        assert client.reply() == answer
        client.send(prefixed(SMALL), ACK | PSH)
        assert client.reply() == answer
        send(client, prefixed(SMALL), at, backwards)
        assert client.reply() == answer
        assert arm == "kernel" or lab.counter("adopted") == adopted + 1


def test_a_later_query(lab: Lab, peer: PeerMaker, version: int) -> None:
    """Behind a reply of the gateway; and one whose beginning the client sent before."""
    answer = ask(lab.network.client, lab.address("nsd", "kernel", version), SMALL)
    for old, at in ((0, 40), (20, 64)):
        client = peer(version=version)
        client.connect()
        client.send(prefixed(SMALL), ACK | PSH)
        assert client.reply() == answer
        client.seq -= old
        send(client, prefixed(SMALL)[len(prefixed(SMALL)) - old :] + prefixed(SMALL), at)
        assert client.reply() == answer


def test_a_query_while_another_waits(lab: Lab, line: Tap) -> None:
    """It is not answered with RST, but waits for the client to send it again."""
    client = Peer(line, lab.address("unruly", "gateway"))
    client.connect()
    client.send(prefixed(query("slow.300.test")), ACK | PSH)
    second = prefixed(query("plain.200.test"))
    for _ in range(2):
        send(client, second, 40)
        client.seq -= len(second)
    assert client.reply()[3] & 15 == 0
    send(client, second, 40)
    assert client.reply()[3] & 15 == 0


def test_what_comes_alone_or_from_a_stranger(lab: Lab, peer: PeerMaker, arm: str) -> None:
    """The first fragment of a connection, without the rest; and one whose numbers are wrong."""
    client = peer()
    client.connect()
    adopted = lab.counter("adopted")
    for _ in range(3):
        parts = fragments(client.segment(prefixed(SMALL), ACK | PSH), 40)
        client.tap.send(parts[0])
    stranger = peer()
    stranger.connect()
    stranger.tap.send(*fragments(stranger.segment(prefixed(SMALL), ack=5), 40)[:1])
    stranger.quiet(0.3)
    assert arm == "kernel" or lab.counter("adopted") == adopted + 1
    client.send(prefixed(SMALL), ACK | PSH)
    assert client.reply()[3] & 15 == 0


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_before_and_behind_a_filter(tmp_path: Path, mode: str) -> None:
    """Connection tracking sees a handshake and then the whole segment."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with (
        laboratory(tmp_path / "lab", ("nsd",), options=("--mode", mode)) as lab,
        tap(lab.network) as line,
    ):
        for filtered in (False, True):
            if filtered:
                lab.network.server.settings({"net/netfilter/nf_conntrack_tcp_loose": "0"})
                rule(lab.network.server, STRICT)
                # It comes again until the gateway knows of the filter.
                ask(lab.network.client, lab.address("nsd", "gateway"), LONG, 10)
            adopted = lab.counter("adopted")
            for version, at in itertools.product((4, 6), SPLITS):
                client = Peer(line, lab.address("nsd", "gateway", version))
                client.connect()
                for _ in range(2):
                    send(client, prefixed(SMALL), at)
                    assert client.reply()[3] & 15 == 0
            assert lab.counter("adopted") == adopted + 6
        assert lab.counter("xdp_error") == 0


@pytest.mark.parametrize("link", ["tun", "packet"])
def test_in_user_space(tmp_path: Path, link: str) -> None:
    """The gateway puts fragments together itself, and serves the connection as any other."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    plain, services = ["192.0.2.10"], ["192.0.2.53", "2001:db8::53"]
    with network([*plain, "2001:db8::10"]) as net:
        files = zones.write(tmp_path / "zones")
        forwards = str(int(link == "tun"))
        net.server.settings(
            {"net/ipv4/ip_forward": forwards, "net/ipv6/conf/all/forwarding": forwards}
        )
        interface = "dns0" if link == "tun" else net.server_link
        words = [str(gateway.program()), "run", "--mode", "user", "--user-link", link]
        words += ["--interface", interface, "--user-upstream", f"{plain[0]}:53"]
        words += [word for service in services for word in ("--server", service)]
        with servers.serve("nsd", net.server, tmp_path / "nsd", files, plain), tap(net) as line:
            process = gateway.start(net.server, words, tmp_path / "gateway")
            try:
                answer = ask(net.client, plain[0], SMALL)
                ways = itertools.product(services, SPLITS, (False, True))
                for service, at, backwards in ways:
                    client = Peer(line, service)
                    client.connect()
                    for _ in range(2):
                        send(client, prefixed(SMALL), at, backwards)
                        assert client.reply() == answer
                # The header of a fragment that has the whole packet (RFC 6946).
                atomic = struct.pack(">BBHI", 6, 0, 0, 7)
                client = Peer(line, services[1], ip_options=atomic, first_header=44)
                client.connect()
                client.send(prefixed(SMALL), ACK | PSH)
                assert client.reply() == answer
                status = ("status", "--json", "--interface", interface, "--interval", "0")
                counters = json.loads(net.server.run(str(gateway.program()), *status))["counters"]
                assert (counters["query"], counters["query_later"]) == (25, 12)
            finally:
                process.terminate()
                process.wait(10)
