"""Other situations on the machine: a server that is gone, MPTCP, the kernel's own connections."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network import Namespace

from . import gateway, servers, zones
from .clients import ask, connect, family, prefixed, query, receive
from .conftest import ARMS, SMALL, Lab, laboratory
from .unruly import unruly

MPTCP = 262
"""IPPROTO_MPTCP, include/uapi/linux/in.h; Python has no name for it before 3.13."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A network with NSD, which the test ends."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path_factory.mktemp("beside") / "lab", ("nsd",)) as made:
        yield made


@pytest.mark.parametrize("arm", ARMS)
def test_a_port_that_is_used_again_is_served(lab: Lab, arm: str) -> None:
    """The client was switched off, or its router gave the port to somebody else."""
    address = lab.address("nsd", arm)
    source = ("0.0.0.0", 40_100 + ARMS.index(arm))
    took = []
    for _ in range(2):
        began = time.monotonic()
        stream = connect(lab.network.client, address, source=source)
        for _ in range(2):
            stream.sendall(prefixed(SMALL))
            assert receive(stream)[3] & 15 == 0
        took.append(time.monotonic() - began)
        # Nothing of that reaches the server, whose kernel keeps the connection.
        table = (
            "add table inet lost; add chain inet lost out { type filter hook output priority 0; };"
        )
        table += f" add rule inet lost out tcp sport {source[1]} drop"
        lab.network.client.run("nft", table)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        stream.close()
        lab.network.client.run("nft", "delete table inet lost")
    assert took[1] < 2, f"{took[1]:.1f} s instead of {took[0]:.3f} s"


def test_mptcp_is_the_kernels(lab: Lab) -> None:
    """Servers in Go listen in this way: second queries and pipelined ones get their answers."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    address = lab.address("no-tcp", "gateway")
    passed = lab.counter("syn_passed")
    with answering(lab.network.server, address):
        message = query("plain.300.test")
        with connect(lab.network.client, address) as stream:
            for _ in range(3):
                stream.sendall(prefixed(message))
                assert receive(stream)[:2] == message[:2]
            stream.sendall(prefixed(message) * 2)
            assert receive(stream) == receive(stream)
    assert lab.counter("syn_passed") == passed + 1
    # Without it only datagrams are answered, and the gateway is the only TCP.
    assert ask(lab.network.client, address, message)[:2] == message[:2]


@contextlib.contextmanager
def answering(space: Namespace, address: str) -> Iterator[None]:
    """A listener with MPTCP that returns each query as its reply."""
    with space.inside():
        try:
            listener = socket.socket(family(address), socket.SOCK_STREAM, MPTCP)
        except OSError as error:
            pytest.skip(f"this kernel has no MPTCP: {error}")
    over = threading.Event()

    def answer() -> None:
        stream, _ = listener.accept()
        with stream, contextlib.suppress(OSError, EOFError):
            while not over.is_set():
                message = receive(stream)
                stream.sendall(prefixed(message[:2] + b"\x80" + message[3:]))

    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, 53))
        listener.listen(8)
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield
        over.set()


def test_without_syn_cookies_new_connections_are_the_kernels(lab: Lab) -> None:
    """The gateway notices the setting while it runs.

    Without cookies, new connections go to the kernel at once, so the kernel takes none over later.
    Those that are open and idle are closed, so that their clients connect anew. One that needs the
    kernel before that is closed, too, and not reset.
    """
    assert lab.gateway is not None
    address = lab.address("nsd", "gateway")

    def until(name: str) -> None:
        ends = time.monotonic() + 10
        before = lab.counter(name)
        while lab.counter(name) == before:
            assert time.monotonic() < ends
            assert ask(lab.network.client, address, SMALL, 3)[3] & 15 == 0
            time.sleep(0.1)

    until("syn")
    with contextlib.ExitStack() as stack:
        kept, needy, fresh = (
            stack.enter_context(connect(lab.network.client, address)) for _ in range(3)
        )
        for stream in (kept, needy):
            stream.sendall(prefixed(SMALL))
            receive(stream)
        lab.network.server.settings({"net/ipv4/tcp_syncookies": "0"})
        try:
            for stream in (needy, fresh):
                stream.sendall(prefixed(SMALL)[:20])
            until("syn_aside")
            for stream in (kept, needy, fresh):
                assert stream.recv(1) == b""
            failed = lab.counter("adopt_failed")
            with connect(lab.network.client, address) as stream:
                for _ in range(3):
                    stream.sendall(prefixed(SMALL))
                    assert receive(stream)[3] & 15 == 0
            assert lab.counter("adopt_failed") == failed
        finally:
            lab.network.server.settings({"net/ipv4/tcp_syncookies": "1"})
        until("syn")
    assert "tcp_syncookies is 0" in (lab.gateway.folder / "log").read_text()


def test_without_window_scaling_connections_that_scale_are_closed(lab: Lab) -> None:
    """Those whose clients scale their windows are closed, and not reset. New ones have no scale."""
    long = prefixed(query(zones.size_name(16000)))
    with contextlib.ExitStack() as stack:
        kept, needy, fresh = (
            [
                stack.enter_context(
                    connect(lab.network.client, lab.address("nsd", "gateway", version))
                )
                for version in (4, 6)
            ]
            for _ in range(3)
        )
        for stream in kept + needy:
            stream.sendall(prefixed(SMALL))
            receive(stream)
        lab.network.server.settings({"net/ipv4/tcp_window_scaling": "0"})
        try:
            for stream in needy + fresh:
                stream.sendall(long)
            for stream in kept + needy + fresh:
                assert stream.recv(1) == b""
            failed, adopted = lab.counter("adopt_failed"), lab.counter("adopted")
            for version in (4, 6):
                address = lab.address("nsd", "gateway", version)
                with connect(lab.network.client, address) as stream:
                    stream.sendall(prefixed(SMALL) + long)
                    assert receive(stream)
                    assert len(receive(stream)) > 15000
            assert lab.counter("adopted") == adopted + 2
            assert lab.counter("adopt_failed") == failed
        finally:
            lab.network.server.settings({"net/ipv4/tcp_window_scaling": "1"})


def test_a_server_that_is_gone_is_refused_and_served_when_it_is_back(tmp_path: Path) -> None:
    """As without the gateway: new clients and connected ones learn of it at once."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path / "lab", ("nsd",)) as made:
        nsd = made.servers["nsd"]
        address = made.address("nsd", "gateway")
        stream = connect(made.network.client, address)
        nsd.process.terminate()
        nsd.process.wait(5)
        began = time.monotonic()
        with pytest.raises(ConnectionRefusedError):
            connect(made.network.client, address)
        with stream, pytest.raises(ConnectionResetError):
            stream.sendall(prefixed(SMALL))
            receive(stream)
        assert time.monotonic() - began < 1
        with (nsd.folder / "log").open("ab") as log:
            again = made.network.server.start(
                ["nsd", "-d", "-c", f"{nsd.folder}/nsd.conf"], log, env={"PATH": servers.PATH}
            )
        try:
            until = time.monotonic() + 10
            while True:
                with contextlib.suppress(OSError):
                    assert ask(made.network.client, address, query(zones.ZONE, "SOA"))
                    break
                assert time.monotonic() < until
                time.sleep(0.1)
            before = made.counter("query")
            assert ask(made.network.client, address, SMALL)[3] & 15 == 0
            assert made.counter("query") == before + 1
        finally:
            again.terminate()
            again.wait(5)


def test_a_silent_address_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    """The log names it, its clients are refused, and it is served once it answers."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    silent = "192.0.2.99"
    with laboratory(tmp_path / "lab", ("nsd",)) as made:
        assert made.gateway is not None
        made.network.server.run("ip", "address", "add", f"{silent}/32", "dev", "lo")
        made.network.client.run("ip", "route", "replace", silent, "dev", made.network.client_link)
        made.gateway.end()
        made.gateway.words = [*made.gateway.words, "--server", silent, "--server-wait", "500 ms"]
        made.gateway.words += ["--loglevel", "2"]
        made.gateway.process = gateway.start(
            made.network.server, made.gateway.words, made.gateway.folder
        )
        log = made.gateway.folder / "log"
        assert "server address does not answer" in log.read_text()
        assert ask(made.network.client, made.address("nsd", "gateway"), SMALL)[3] & 15 == 0
        with pytest.raises(ConnectionRefusedError):
            connect(made.network.client, silent)
        with unruly(made.network.server, [silent], []):
            assert b"plain" in ask(made.network.client, silent, query("plain.100.test"))
            until = time.monotonic() + 20
            while "server address answers now" not in log.read_text():
                assert time.monotonic() < until
                time.sleep(0.2)
