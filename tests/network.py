"""Network namespaces with a virtual link between them: a client's, a server's, perhaps a wire.

All names start with `nrw-e2e-<pid>`, and the namespaces go when the tests end, however they end: a
namespace takes its links with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

CLONE_NEWNET = 0x40000000

LIBC = ctypes.CDLL(None, use_errno=True)

# BIND, NSD and so on: each answers at two addresses, one of which is behind the gateway.
CLIENT_MAC, SERVER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
CLIENT = "192.0.2.1"
CLIENT6 = "2001:db8::1"
ROUTED = "198.18.0.0/15"
"""Addresses behind the client (RFC 2544, C.2.2): no kernel owns these, and none resets their
connections."""
ROUTED6 = "2001:db8:f::/48"

# These make the kernel's TCP the same in each run, whatever the machine's settings are. Reno is the
# one congestion control that every namespace may choose.
SETTINGS = {
    "net/ipv4/tcp_congestion_control": "reno",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_syncookies": "1",
    # After a write that took part of its reply, NSD 4.6 never continues.
    "net/ipv4/tcp_wmem": "4096 262144 4194304",
    "net/ipv4/tcp_syn_retries": "20",
    # Timeouts double up to 2 minutes: on a bad line, a few losses in a row would outlast a test.
    "net/ipv4/tcp_rto_max_ms": "2000",
    "net/ipv4/tcp_tw_reuse": "1",
    "net/ipv4/ip_local_port_range": "1024 65000",
    "net/ipv6/conf/all/accept_dad": "0",
    "net/ipv6/conf/default/accept_dad": "0",
    "net/ipv6/conf/default/accept_ra": "0",
    "net/ipv6/conf/default/router_solicitations": "0",
    "net/ipv4/icmp_ratelimit": "0",
    # How often the kernel answers a segment outside its window.
    "net/ipv4/tcp_invalid_ratelimit": "0",
}

COUNT = itertools.count()


@dataclass(frozen=True)
class Namespace:
    """A network namespace, by its name in /run/netns."""

    name: str

    @property
    def path(self) -> Path:
        """The file that represents it."""
        return Path("/run/netns") / self.name

    def command(self, *words: str) -> list[str]:
        """A command line that runs inside; the mounts stay, including the BPF file system."""
        return ["nsenter", f"--net={self.path}", *words]

    def run(self, *words: str, check: bool = True, **options: Any) -> str:
        """Runs a command inside, and returns its output."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=120, **options
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def start(
        self, words: Sequence[str], log: IO[bytes] | int, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Starts a command inside."""
        return subprocess.Popen(self.command(*words), stdout=log, stderr=log, **options)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Moves this thread inside; sockets that are made meanwhile stay there."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(self.path, os.O_RDONLY)
        try:
            enter(there)
            try:
                yield
            finally:
                enter(home)
        finally:
            os.close(there)
            os.close(home)

    def settings(self, values: dict[str, str]) -> None:
        """Writes to /proc/sys; settings that this kernel lacks are skipped."""
        with self.inside():
            for name, value in values.items():
                path = Path("/proc/sys") / name
                if path.exists():
                    path.write_text(value)

    def statistic(self, group: str, name: str) -> int:
        """A counter of /proc/net/snmp, such as Udp InDatagrams."""
        with self.inside():
            lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
        names, values = (line.split() for line in lines if line.startswith(f"{group}: "))
        return int(values[names.index(name)])


def enter(namespace: int) -> None:
    """Puts this thread into a namespace, by its file."""
    if LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@dataclass
class Network:
    """A client's and a server's namespace with a link between them."""

    client: Namespace
    server: Namespace
    client_link: str
    server_link: str
    wire: Namespace | None = None
    """The namespace between the two, if there is a wire that loses packets."""
    wire_links: tuple[str, str] | None = None
    """The wire's end at the client, and at the server."""
    made: list[Namespace] = field(default_factory=list)


@contextlib.contextmanager
def network(
    servers: Sequence[str],
    mtu: int = 1500,
    offload: bool = True,
    wired: bool = False,
    clients: Sequence[str] = (),
) -> Iterator[Network]:
    """Makes a network; `servers` are the addresses of the server, `clients` more of the client.

    No segment is longer than the MTU anywhere, as on a line between two machines. With `offload`
    the links take TCP and UDP checksums for their own work, as most network cards do, without it
    the stack completes them.
    `wired` puts a third namespace between the two, whose ends are joined by nothing yet.
    """
    number = f"{os.getpid()}-{next(COUNT)}"
    short = number.replace("-", "x")  # 15 characters at most
    made: list[Namespace] = []

    def namespace(end: str) -> Namespace:
        space = Namespace(f"nrw-e2e-{number}-{end}")
        subprocess.run(["ip", "netns", "add", space.name], check=True)
        made.append(space)
        space.settings(SETTINGS)
        space.run("ip", "link", "set", "lo", "up")
        return space

    def veth(a: Namespace, link_a: str, b: Namespace, link_b: str) -> None:
        a.run("ip", "link", "add", link_a, "type", "veth", "peer", "name", link_b, "netns", b.name)
        for space, link in ((a, link_a), (b, link_b)):
            space.run("ip", "link", "set", link, "mtu", str(mtu))
            off = ["tso", "gso", "gro"] if offload else ["tso", "gso", "gro", "tx"]
            words = [word for name in off for word in (name, "off")]
            space.run("ethtool", "-K", link, *words)
            space.run("ip", "link", "set", link, "up")

    try:
        client, server = namespace("c"), namespace("s")
        client_link, server_link = f"nc{short}", f"ns{short}"
        made_network = Network(client, server, client_link, server_link, made=made)
        if wired:
            wire = namespace("w")
            links = f"nx{short}", f"ny{short}"
            veth(client, client_link, wire, links[0])
            veth(wire, links[1], server, server_link)
            made_network.wire, made_network.wire_links = wire, links
        else:
            veth(client, client_link, server, server_link)
        client.run("ip", "link", "set", client_link, "address", CLIENT_MAC.hex(":"))
        server.run("ip", "link", "set", server_link, "address", SERVER_MAC.hex(":"))
        for here, link, addresses in (
            (client, client_link, [CLIENT, CLIENT6, *clients]),
            (server, server_link, list(servers)),
        ):
            for address in addresses:
                prefix = "/64" if ":" in address else "/24"
                here.run("ip", "addr", "add", address + prefix, "dev", link, *nodad(address))
        server.run("ip", "route", "add", ROUTED, "via", CLIENT)
        server.run("ip", "route", "add", ROUTED6, "via", CLIENT6)
        # Neighbour entries are permanent: no test waits for neighbour discovery or loses it.
        for here, link, mac, addresses in (
            (client, client_link, SERVER_MAC, list(servers)),
            (server, server_link, CLIENT_MAC, [CLIENT, CLIENT6, *clients]),
        ):
            for address in addresses:
                words = ["lladdr", mac.hex(":"), "dev", link]
                here.run("ip", "neigh", "replace", address, *words)
        yield made_network
    finally:
        for space in reversed(made):
            subprocess.run(["ip", "netns", "del", space.name], check=False)


def join_by_router(made: Network, servers: Sequence[str], clients: Sequence[str], mtu: int) -> None:
    """Has the wire's namespace forward; its end at the client takes only `mtu` bytes.

    Both ends' own links stay as they are, and so does what they offer to each other.
    """
    assert made.wire is not None
    assert made.wire_links is not None
    wire, (to_client, to_server) = made.wire, made.wire_links
    wire.settings({"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"})
    wire.run("ip", "link", "set", to_client, "mtu", str(mtu))
    for router in ("192.0.2.254/32", "2001:db8::254/128"):
        wire.run("ip", "addr", "add", router, "dev", "lo", *nodad(router))
    for end, link, peer, far in (
        (made.client, made.client_link, to_client, servers),
        (made.server, made.server_link, to_server, [CLIENT, CLIENT6, *clients]),
    ):
        (about,) = json.loads(wire.run("ip", "-j", "link", "show", "dev", peer))
        for address in far:
            end.run("ip", "neigh", "replace", address, "lladdr", about["address"], "dev", link)
    for link, mac, near in (
        (to_client, CLIENT_MAC, [CLIENT, CLIENT6, *clients]),
        (to_server, SERVER_MAC, servers),
    ):
        for address in near:
            if ":" in address and mtu < 1280:
                continue  # IPv6 has no such links
            bits = "/128" if ":" in address else "/32"
            wire.run("ip", "route", "add", address + bits, "dev", link)
            wire.run("ip", "neigh", "replace", address, "lladdr", mac.hex(":"), "dev", link)


def nodad(address: str) -> list[str]:
    """Makes an IPv6 address usable at once."""
    return ["nodad"] if ":" in address else []
