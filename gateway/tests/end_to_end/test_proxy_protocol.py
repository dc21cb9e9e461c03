"""The user-space path with the PROXY protocol: real servers see the clients, over UDP and TCP.

Server, gateway and clients are in one namespace, each with addresses of its own. The servers let
one client's address ask, or transfer, so that their answers show whom they see.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.rcode
import pytest

from tests.network import Namespace

from . import gateway, servers, zones
from .clients import prefixed, query, receive

FRIEND, OTHER, PLAIN, SERVICE = "192.0.2.7", "192.0.2.8", "192.0.2.9", "198.51.100.53"
PROXIED = "127.0.0.1"
"""The address from which the gateway asks, and from which servers accept headers."""
PORT = 5300
COUNT = itertools.count()


def changed(config: Path, *pairs: tuple[str, str]) -> None:
    """Makes these replacements in a configuration."""
    text = config.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)


def unbound(folder: Path, files: dict[str, Path], addresses: object) -> list[str]:
    """Unbound 1.17 also checks the proxy's address against its access list."""
    words = servers.unbound(folder, files, [PLAIN, f"{PROXIED}@{PORT}"])
    allowed = "\n".join(f"  access-control: {ip}/32 allow" for ip in (FRIEND, PLAIN, PROXIED))
    more = f"{allowed}\n  access-control: 0.0.0.0/0 refuse\n  proxy-protocol-port: {PORT}"
    changed(folder / "unbound.conf", ("  access-control: 0.0.0.0/0 allow", more))
    return words


def knot(folder: Path, files: dict[str, Path], addresses: object) -> list[str]:
    words = servers.knot(folder, files, [PLAIN])
    changed(
        folder / "knot.conf",
        (f"{PLAIN}@53", f"{PLAIN}@53, {PROXIED}@{PORT}"),
        ("  tcp-workers: 1", f"  tcp-workers: 1\n  proxy-allowlist: {PROXIED}"),
    )
    return words


def powerdns(folder: Path, files: dict[str, Path], addresses: object) -> list[str]:
    """PowerDNS, with transfers only for the friend, and its default UDP replies of 1232 bytes."""
    words = servers.powerdns(folder, files, [PLAIN, f"{PROXIED}:{PORT}"])
    changed(
        folder / "pdns.conf",
        ("0.0.0.0/0, ::/0", f"{FRIEND}\nproxy-protocol-from={PROXIED}"),
        ("udp-truncation-threshold=65535", "udp-truncation-threshold=1232"),
    )
    return words


CONFIGURE = {"unbound": unbound, "knot": knot, "powerdns": powerdns}


@contextlib.contextmanager
def place(kind: str, folder: Path) -> Iterator[Namespace]:
    """A namespace in which the server runs."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    space = Namespace(f"nrw-e2e-{os.getpid()}-p{next(COUNT)}")
    subprocess.run(["ip", "netns", "add", space.name], check=True)
    try:
        space.run("ip", "link", "set", "lo", "up")
        for address in (FRIEND, OTHER, PLAIN):
            space.run("ip", "addr", "add", f"{address}/32", "dev", "lo")
        files = zones.write(folder / "zones")
        with servers.serve(kind, space, folder / kind, files, [PLAIN], CONFIGURE[kind]):
            yield space
    finally:
        subprocess.run(["ip", "netns", "del", space.name], check=False)


def words(transport: str) -> list[str]:
    """The gateway's command line."""
    return [
        *(str(gateway.program()), "run", "--mode", "user", "--interface", "dns0"),
        *("--server", SERVICE, "--user-upstream", f"{PROXIED}:{PORT}"),
        *("--user-proxy-protocol", transport),
    ]


@contextlib.contextmanager
def serving(space: Namespace, transport: str, folder: Path) -> Iterator[None]:
    """Runs the gateway."""
    process = gateway.start(space, words(transport), folder)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


def ask(space: Namespace, client: str, name: str, kind: str = "TXT") -> dns.message.Message:
    """The first message of the reply, over TCP from this address."""
    with space.inside():
        stream = socket.create_connection((SERVICE, 53), 10, source_address=(client, 0))
    with stream:
        stream.sendall(prefixed(query(name, kind)))
        return dns.message.from_wire(receive(stream))


def asked_again(space: Namespace) -> int:
    """How often the gateway asked again over TCP because a reply was truncated."""
    shown = space.run(str(gateway.program()), "status", "--json", "--interface", "dns0")
    found = json.loads(shown)["counters"]
    return int(found["to_kernel_reply"]) + int(found["to_kernel_refused"])


def test_unbound_sees_the_client_over_udp_and_tcp(tmp_path: Path) -> None:
    with place("unbound", tmp_path) as space, serving(space, "stream", tmp_path / "gateway"):
        # 16000 bytes exceed a datagram of edns_size, so the server is asked over TCP.
        for size in (300, 16000):
            assert ask(space, FRIEND, zones.size_name(size)).rcode() == dns.rcode.NOERROR
            assert ask(space, OTHER, zones.size_name(size)).rcode() == dns.rcode.REFUSED
        assert asked_again(space) >= 1


def test_powerdns_takes_the_client_and_tcp_from_the_header(tmp_path: Path) -> None:
    """It does not truncate its datagram, and transfers the zone to those it allows."""
    with place("powerdns", tmp_path) as space, serving(space, "stream", tmp_path / "gateway"):
        assert ask(space, OTHER, zones.size_name(2000)).answer
        assert asked_again(space) == 0
        assert ask(space, FRIEND, zones.TRANSFER, "AXFR").answer
        assert not ask(space, OTHER, zones.TRANSFER, "AXFR").answer


def test_knot_takes_headers_of_datagrams_alone(tmp_path: Path) -> None:
    with place("knot", tmp_path) as space, serving(space, "datagram", tmp_path / "gateway"):
        for size in (300, 16000):
            assert ask(space, FRIEND, zones.size_name(size)).answer
        assert asked_again(space) >= 1


def test_a_server_that_takes_no_such_header_is_refused(tmp_path: Path) -> None:
    """Knot 3.2 accepts no STREAM header in a datagram."""
    with place("knot", tmp_path) as space:
        done = subprocess.run(
            space.command(*words("stream"), "--server-wait", "1 s"), capture_output=True, text=True
        )
    # It is silent, like one that is still starting, so a start is worth another try.
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: server: {PROXIED}:{PORT} does not answer a DNS query behind")
    assert "user.proxy_protocol" in line
