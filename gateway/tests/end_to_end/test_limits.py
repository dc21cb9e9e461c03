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

from tests.network import CLIENT, CLIENT6

from . import gateway, servers, zones
from .clients import ask, connect, family, query
from .conftest import ARMS, Lab, laboratory

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


LIMIT, BACKLOG = 4, 16
OTHER = ("192.0.2.2", "2001:db8:0:1::2")
"""Addresses of further clients: another IPv4 address, and another network of 64 bits."""


def with_a_byte(lab: Lab, address: str, source: str, count: int) -> list[socket.socket]:
    """Connections with one byte on each, which only the kernel's TCP can have."""
    made = [connect(lab.network.client, address, source=(source, 0)) for _ in range(count)]
    for stream in made:
        stream.sendall(b"\0")
    return made


def queued(lab: Lab, address: str, wanted: int) -> int:
    """How many connections wait until the server accepts them, once that number is reached."""
    shown = f"[{address}]" if ":" in address else address
    for _ in range(20):
        lines = lab.network.server.run("ss", "-Hltn", "src", f"{shown}:53").splitlines()
        found = int(lines[0].split()[1])
        if found >= wanted:
            break
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("version", [4, 6])
def test_one_source_leaves_others_half_of_the_backlog(tmp_path: Path, version: int) -> None:
    """While a server accepts nothing, further ones wait. None is reset; all are served later."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    options = ("--limits-adoptions", str(LIMIT))
    own, other = (CLIENT, OTHER[0]) if version == 4 else (CLIENT6, OTHER[1])
    with laboratory(tmp_path / "lab", (), options=options, clients=OTHER) as lab:
        address = lab.address("no-tcp", "gateway", version)
        if version == 6:
            lab.network.server.run("ip", "route", "add", OTHER[1], "via", CLIENT6)
        with lab.network.server.inside():
            listener = socket.socket(family(address))
        listener.bind((address, 53))
        listener.listen(BACKLOG)
        entered: list[socket.socket] = []
        waiting: list[socket.socket] = []
        half = BACKLOG // 2 + 1
        # One after the other: Linux runs tc for a whole list of packets before TCP sees the first.
        for source, most in ((own, half), (other, half + LIMIT)):
            while len(entered) < most:
                entered += with_a_byte(lab, address, source, 1)
                assert queued(lab, address, len(entered)) == len(entered)
            waiting += with_a_byte(lab, address, source, 4)
        streams = entered + waiting
        assert queued(lab, address, half + LIMIT + 1) == half + LIMIT
        assert lab.counter("adopt_limited") >= len(waiting)
        # Others that need no connection to the server are served.
        assert ask(lab.network.client, address, query("plain.200.test"))
        listener.settimeout(10)
        accepted = [listener.accept()[0] for _ in streams]
        assert [stream.recv(1) for stream in accepted] == [b"\0"] * len(streams)
        for stream in (listener, *streams, *accepted):
            stream.close()
