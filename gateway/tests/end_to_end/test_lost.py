"""No query that the kernel's TCP answers is lost behind the gateway, with its own settings.

Each load runs on the kernel's TCP, too, where it must lose nothing either. All of it comes from few
addresses, as from a resolver or a router with many clients behind it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from . import gateway, servers, zones
from .clients import connect, prefixed, query, receive
from .conftest import ARMS, SMALL, Lab, address, laboratory
from .crowd import Job, ask_all
from .segments import ACK, PSH, Peer, tap
from .test_limits import OTHER, asked_over_udp

LONG = query(zones.size_name(30000))
"""A name whose reply only the kernel's TCP can send: 21 segments."""
MANY = 150
"""More connections than one source may have in the kernel's TCP at once, were they all open."""
SHARE = 512
"""Connections with several open queries of one source: an eighth of all."""


def rated(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
    """BIND with a limit of 5 replies a second, or NSD with 20 (200 by default)."""
    if folder.name == "bind":
        return servers.limited(folder, files, addresses, slip=2, cookies=False)
    words = servers.nsd(folder, files, addresses)
    config = folder / "nsd.conf"
    config.write_text(config.read_text().replace("rrl-ratelimit: 0", "rrl-ratelimit: 20"))
    return words


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """NSD behind a gateway with the limits that it has by itself."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path_factory.mktemp("lost") / "lab", ("nsd",), clients=OTHER) as made:
        yield made


def lost(lab: Lab, kind: str, arm: str, messages: Sequence[bytes], apart: float) -> list[str]:
    """The errors of queries that begin so many seconds apart, each on a connection of its own."""
    jobs = [Job(address(kind, arm), message) for message in messages]
    outcomes = ask_all(lab.network.client, jobs, timeout=10, apart=apart)
    return [outcome.error or "nothing" for outcome in outcomes if not outcome.replies]


def one_after_the_other(lab: Lab, arm: str, count: int) -> list[str]:
    """The errors of long replies, with one connection at a time."""
    errors = []
    for _ in range(count):
        try:
            with connect(lab.network.client, address("nsd", arm)) as stream:
                stream.sendall(prefixed(LONG))
                receive(stream)
        except OSError as error:
            errors.append(str(error))
    return errors


@pytest.mark.parametrize("arm", ARMS)
def test_long_replies(lab: Lab, arm: str) -> None:
    """One connection at a time, and then all at once."""
    before = lab.counter("adopted")
    assert one_after_the_other(lab, arm, MANY) == []
    assert lost(lab, "nsd", arm, [LONG] * MANY, 0) == []
    if arm == "gateway":
        assert lab.counter("adopted") - before == 2 * MANY


@pytest.mark.parametrize("arm", ARMS)
def test_connections_that_one_source_keeps_open(lab: Lab, arm: str) -> None:
    """With a byte on each: the server still has room, so further ones are served."""
    kept = [connect(lab.network.client, address("nsd", arm)) for _ in range(MANY)]
    for stream in kept:
        stream.sendall(b"\0")
    assert one_after_the_other(lab, arm, 5) == []
    for stream in kept:
        stream.sendall(prefixed(SMALL)[1:])
    assert all(receive(stream) for stream in kept)
    for stream in kept:
        stream.close()


@pytest.mark.parametrize("mss", [1460, 88])
def test_a_client_with_little_room_lists_no_name(lab: Lab, mss: int) -> None:
    """A reply above its window, or above ten of its segments, says nothing about the name."""
    name = f"room{mss}.w.{zones.ZONE}" if mss > 88 else zones.size_name(1200)
    with tap(lab.network) as line:
        client = Peer(line, address("nsd", "gateway"), mss=mss, window_scale=None)
        client.connect()
        client.window = 30 if mss > 88 else 65535
        before = lab.counter("to_kernel_reply")
        client.send(prefixed(query(name)), ACK | PSH)
        client.receive()
    assert lab.counter("to_kernel_reply") == before + 1
    large = lab.counter("to_kernel_large")
    assert lost(lab, "nsd", "gateway", [query(name)] * 3, 0) == []
    assert lab.counter("to_kernel_large") == large


def test_connections_with_several_open_queries(lab: Lab) -> None:
    """One source opens more than its share and acknowledges nothing; others are still served."""
    two = b"".join(prefixed(query(zones.size_name(60), id=id)) for id in (1, 2))
    with tap(lab.network) as line:
        for _ in range(SHARE + 50):
            client = Peer(line, address("nsd", "gateway"))
            client.connect(acknowledge=False)
            client.send(two, ACK | PSH)
        adopted = lab.counter("adopted")
        assert lab.gateway is not None
        taken = len(lab.gateway.dump("opens"))
        # Of the places, 64 are looked at.
        assert SHARE * 0.9 < taken <= SHARE
        for _ in range(20):
            with connect(lab.network.client, address("nsd", "gateway")) as stream:
                stream.sendall(two)
                assert receive(stream)
                assert receive(stream)
        assert lab.counter("adopted") == adopted


def test_while_the_daemon_is_dead_and_when_it_comes_back(lab: Lab) -> None:
    """After a kill, and while restarts take the programs over."""
    assert lab.gateway is not None
    lab.gateway.end(signal.SIGKILL)
    assert one_after_the_other(lab, "gateway", MANY) == []
    errors: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            errors.extend(one_after_the_other(lab, "gateway", 1))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    before = lab.counter("adopted")
    try:
        lab.gateway.process = gateway.start(
            lab.gateway.space, lab.gateway.words, lab.gateway.folder
        )
        lab.gateway.restart(signal.SIGUSR2)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert lab.counter("adopted") - before > MANY


def test_rate_limits_of_the_server(tmp_path: Path) -> None:
    """NSD's, met over TCP alone; and BIND's, which datagrams in the client's name trip."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path / "lab", ("nsd", "bind"), configure=rated) as lab:
        for arm in ARMS:
            nowhere = [query(f"n{number}.{zones.ZONE}", "A") for number in range(MANY)]
            assert lost(lab, "nsd", arm, nowhere, 0.005) == []
            message = query(f"limited.w.{zones.ZONE}")
            with asked_over_udp(lab, address("bind", arm), message):
                assert lost(lab, "bind", arm, [message] * MANY, 0.005) == []
        # After some silences, queries go over TCP at once.
        over_tcp = ("to_kernel_refused", "to_kernel_silent", "query_limited")
        assert sum(map(lab.counter, over_tcp)) > MANY, "the limits were met"


def test_queries_above_the_rate_of_the_gateway(tmp_path: Path) -> None:
    """The kernel's TCP serves them."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    options = ("--limits-query-rate", "1", "--limits-query-burst", "1")
    with laboratory(tmp_path / "lab", ("nsd",), options=options) as lab:
        assert lost(lab, "nsd", "gateway", [SMALL] * MANY, 0.002) == []
        assert lab.counter("query_limited") > MANY / 2
