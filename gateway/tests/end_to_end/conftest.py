"""A network with all servers, each at a direct address and at one behind the gateway."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.network import Network, join_by_router, network

from . import gateway, servers, xdp, zones
from .clients import ask, query
from .programs import Wire, wire
from .segments import Peer, Tap, tap
from .unruly import Unruly, unruly

KINDS = tuple(servers.PROGRAMS)
UNRULY = ("unruly", "no-tcp")
"""A server of the tests' own, and another without TCP."""
PLACES = KINDS + UNRULY
ARMS = ("kernel", "gateway")
INSTALL = "install it with: sh tools/install_test_tools.sh"
TOOLS = ("ip", "ss", "ethtool", "nsenter", "bpftool", "dnssec-signzone", "cc")
TOOLS += ("dig", "kdig", "dnsperf")

SMALL = query(zones.size_name(300))
"""A name whose reply fits in one segment."""
LARGE = query(zones.size_name(4000))
"""A name whose reply takes several segments."""


@dataclass
class Lab:
    """Running servers, and where they are."""

    network: Network
    servers: dict[str, servers.Server]
    unruly: Unruly
    gateway: gateway.Gateway | None
    wire: Wire | None = None
    """The wire that joins the two ends, if there is one."""

    def address(self, kind: str, arm: str, version: int = 4) -> str:
        """Where a server answers: by the kernel's TCP, or through the gateway."""
        if arm == "gateway" and self.gateway is None:
            pytest.skip(gateway.absent())
        return address(kind, arm, version)

    def counter(self, name: str) -> int:
        """A counter of the gateway."""
        assert self.gateway is not None
        return self.gateway.counters()[name]


def address(kind: str, arm: str, version: int = 4) -> str:
    """The address of a server, by its place in the list and the arm."""
    last = 10 * (1 + ARMS.index(arm)) + PLACES.index(kind)
    return f"192.0.2.{last}" if version == 4 else f"2001:db8::{last}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips all tests, with the reason, if the machine cannot run them."""
    reason = None
    if os.geteuid() != 0:
        reason = "needs root: network namespaces; run as root: make test-gateway"
    elif absent := [tool for tool in TOOLS if not shutil.which(tool)]:
        reason = f"{absent[0]} is not installed; {INSTALL}"
    elif gone := servers.missing():
        reason = f"the server {gone[0]} is not installed; {INSTALL}"
    if reason:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@contextlib.contextmanager
def laboratory(
    folder: Path,
    kinds: tuple[str, ...] = KINDS,
    mtu: int = 1500,
    offload: bool = True,
    wired: bool = False,
    options: tuple[str, ...] = (),
    clients: tuple[str, ...] = (),
    peer_program: bool = True,
    path_mtu: int | None = None,
    configure: servers.Configure | None = None,
) -> Iterator[Lab]:
    """A network with servers, and the gateway with these options if it is built.

    `peer_program` puts an XDP program at the other end of the server's link, without which native
    XDP sends nothing. The mode is native unless `options` name another, as on most network cards.
    With `path_mtu`, there is a router between both ends, whose link to the client has this
    MTU. `configure` replaces the servers' own function for their configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = zones.write(folder / "zones")
    everyone = kinds + UNRULY
    plain = [address(kind, "kernel", v) for kind in everyone for v in (4, 6)]
    behind = [address(kind, "gateway", v) for kind in everyone for v in (4, 6)]
    both = [[address(kind, arm, v) for arm in ARMS for v in (4, 6)] for kind in UNRULY]
    with contextlib.ExitStack() as stack:
        between = wired or path_mtu is not None
        net = stack.enter_context(network(plain + behind, mtu, offload, between, clients))
        if path_mtu is not None:
            join_by_router(net, plain + behind, clients, path_mtu)
        at_server = (net.client, net.client_link)
        if net.wire is not None and net.wire_links is not None:
            at_server = (net.wire, net.wire_links[1])
        if peer_program:
            stack.enter_context(xdp.passing(*at_server))
        joined = stack.enter_context(wire(net)) if wired else None
        started = {}
        for kind in kinds:
            where = [address(kind, arm, v) for arm in ARMS for v in (4, 6)]
            server = servers.serve(kind, net.server, folder / kind, files, where, configure)
            started[kind] = stack.enter_context(server)
        odd = unruly(net.server, both[0] + both[1], both[0])
        odd_server = stack.enter_context(odd)
        running = None
        if gateway.program() is not None:
            running = stack.enter_context(
                gateway.running(net.server, net.server_link, behind, folder / "gateway", options)
            )
        yield Lab(net, started, odd_server, running, joined)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The network that most tests share."""
    with laboratory(tmp_path_factory.mktemp("lab") / "main") as made:
        yield made


@pytest.fixture(params=ARMS)
def arm(request: pytest.FixtureRequest) -> str:
    """Each test also runs on the kernel's TCP, where its expectations must hold."""
    return str(request.param)


@pytest.fixture
def line(lab: Lab) -> Iterator[Tap]:
    """The client's end of the line, for handmade segments."""
    with tap(lab.network) as made:
        yield made


PeerMaker = Callable[..., Peer]


@pytest.fixture
def peer(lab: Lab, arm: str, line: Tap) -> Iterator[PeerMaker]:
    """Makes handmade clients: for a server, IPv4 or IPv6, and other fields of Peer."""
    made = 0

    def make(kind: str = "nsd", version: int = 4, **fields: Any) -> Peer:
        nonlocal made
        made += 1
        return Peer(line, lab.address(kind, arm, version), **fields)

    through = arm == "gateway" and lab.gateway is not None
    before = lab.counter("syn") if through else 0
    yield make
    assert not through or lab.counter("syn") >= before + made, (
        "it was not the gateway that answered"
    )


@pytest.fixture(params=[4, 6], ids=["ipv4", "ipv6"])
def version(request: pytest.FixtureRequest) -> int:
    """IPv4 or IPv6."""
    return int(request.param)


@pytest.fixture
def expected(lab: Lab) -> dict[bytes, bytes]:
    """What NSD answers to both queries over the kernel's TCP."""
    address = lab.address("nsd", "kernel")
    return {message: ask(lab.network.client, address, message) for message in (SMALL, LARGE)}
