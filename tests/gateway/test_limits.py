"""Forged datagrams with a client's address must not deprive the client of TCP.

The client's own datagrams stand for the forged ones: the server cannot tell them apart.
"""

from __future__ import annotations

import functools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.edns
import pytest

from . import gateway, servers, zones
from .clients import ask, connect, family, query
from .conftest import ARMS, Lab, laboratory
from .network import CLIENT, CLIENT6

RATE = 1000
"""Datagrams a second."""


@contextmanager
def asked_over_udp(lab: Lab, address: str, message: bytes) -> Iterator[None]:
    """The client's address keeps asking the server over UDP, far above its limit."""
    over = threading.Event()
    with lab.network.client.inside():
        datagrams = socket.socket(family(address), socket.SOCK_DGRAM)

    def send() -> None:
        while not over.is_set():
            for _ in range(RATE // 100):
                datagrams.sendto(message, (address, 53))
            time.sleep(0.01)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        time.sleep(1)
        yield
    finally:
        over.set()
        thread.join(5)
        datagrams.close()


@pytest.mark.slow
@pytest.mark.parametrize(("slip", "cookies"), [(0, False), (1, False), (2, True)])
def test_a_rate_limit_leaves_tcp_alone(tmp_path: Path, slip: int, cookies: bool) -> None:
    """Dropped, truncated, or asked for a cookie: every query over TCP is still answered."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    configure = functools.partial(servers.limited, slip=slip, cookies=cookies)
    # The 16 bytes of RFC 7873, section 4: only the client's half.
    cookie = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, bytes(range(8)))
    name = f"limited.w.{zones.ZONE}"
    message = query(name, edns=1232, options=[cookie]) if cookies else query(name)
    with laboratory(tmp_path / "lab", ("bind",), configure=configure) as lab:
        for arm in ARMS:
            address = lab.address("bind", arm)
            with asked_over_udp(lab, address, message):
                began = time.monotonic()
                replies = [ask(lab.network.client, address, message) for _ in range(8)]
                took = time.monotonic() - began
            assert [reply[2] & 2 for reply in replies] == [0] * 8, "truncated over TCP"
            assert [reply[3] & 15 for reply in replies] == [0] * 8, "not NOERROR"
            assert all(reply[7] for reply in replies), "without an answer"
            # A client waits at most for its second timeout (RFC 6298: 0.2 s in Linux).
            assert took < 8 * 2
        assert lab.counter("to_kernel_large") == 0, "the name is none with a large reply"
        refused, silent = lab.counter("to_kernel_refused"), lab.counter("to_kernel_silent")
        assert (silent if slip == 0 else refused) >= 4


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The server of the tests' own, and the gateway."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path_factory.mktemp("limits") / "lab", ()) as made:
        yield made


@pytest.mark.parametrize("arm", ARMS)
def test_a_reply_to_a_datagram_is_none_over_tcp(lab: Lab, arm: str) -> None:
    """While a query waits, the same address, port and ID asks something else over UDP."""
    address = lab.address("unruly", arm)
    message, other = query("slow.300.test", id=77), query("plain.200.test", id=77)
    with lab.network.client.inside():
        stream = socket.socket()
        datagrams = socket.socket(type=socket.SOCK_DGRAM)
    with stream, datagrams:
        stream.settimeout(10)
        stream.connect((address, 53))
        datagrams.bind(("", stream.getsockname()[1]))
        datagrams.settimeout(5)
        stream.sendall(len(message).to_bytes(2) + message)
        time.sleep(0.1)
        datagrams.sendto(other, (address, 53))
        assert b"plain" in datagrams.recv(65535)
        assert b"slow" in stream.recv(65535)
        # Also in the connection's later states.
        datagrams.sendto(other, (address, 53))
        assert b"plain" in datagrams.recv(65535)


@pytest.mark.parametrize("arm", ARMS)
def test_a_query_that_udp_does_not_answer_is_answered(lab: Lab, arm: str) -> None:
    """The first datagram of the name is lost; the server is asked once, and then over TCP."""
    name = f"once.{ARMS.index(arm) + 100}.test."
    before = lab.unruly.asked[name]
    began = time.monotonic()
    assert b"once" in ask(lab.network.client, lab.address("unruly", arm), query(name))
    assert time.monotonic() - began < 2
    assert lab.unruly.asked[name] - before == (1 if arm == "gateway" else 0)


LIMIT = 8
OTHER = ("192.0.2.2", "2001:db8:0:1::2")
"""Addresses of further clients: another IPv4 address, and another network of 64 bits."""


def held(lab: Lab, address: str, source: str, count: int) -> list[socket.socket]:
    """Connections with one byte on each, without those that were reset."""
    made = [connect(lab.network.client, address, source=(source, 0)) for _ in range(count)]
    for stream in made:
        stream.sendall(b"\0")
    time.sleep(0.3)
    kept = []
    for stream in made:
        stream.settimeout(0.05)
        try:
            stream.recv(1)
        except TimeoutError:
            kept.append(stream)
        except ConnectionResetError:
            stream.close()
    return kept


@pytest.mark.parametrize("version", [4, 6])
def test_one_source_has_a_share_of_the_servers_connections(tmp_path: Path, version: int) -> None:
    """NSD accepts 100; clients beyond the limit are reset, others and later ones are served."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    options = ("--limits-adoptions", str(LIMIT))
    own, other = (CLIENT, OTHER[0]) if version == 4 else (CLIENT6, OTHER[1])
    with laboratory(tmp_path / "lab", ("nsd",), options=options, clients=OTHER) as lab:
        address = lab.address("nsd", "gateway", version)
        if version == 6:
            lab.network.server.run("ip", "route", "add", OTHER[1], "via", CLIENT6)
        kept = held(lab, address, own, 2 * LIMIT)
        assert len(kept) == LIMIT
        assert lab.counter("adopt_limited") >= LIMIT
        # The daemon has counted them, and earlier ones count, too.
        time.sleep(2.5)
        assert held(lab, address, own, 2) == []
        # A first query needs no connection to the server.
        message = query(zones.size_name(300))
        assert ask(lab.network.client, address, message)
        others = held(lab, address, other, 2)
        assert len(others) == 2
        for stream in kept + others:
            stream.close()
        time.sleep(2.5)
        again = held(lab, address, own, 2)
        assert len(again) == 2
        for stream in again:
            stream.close()
