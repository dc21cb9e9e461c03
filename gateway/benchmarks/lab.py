"""Network namespaces for the bench: one for clients, and one for each server, with its own link.

    client namespace                        a server's namespace
    b<pid>c<n>  198.18.<n>.10 to .14  ----  b<pid>s<n>  198.18.<n>.1
                fd18:<n>::10 to ::14                    fd18:<n>::1

Every interface receives in a kernel thread of its own (threaded NAPI), pinned: the clients' to one
core and the servers' to another. What softirqs do for a server is then that thread's time, which
the scheduler counts exactly; without it, packets would be handled wherever they were sent from, and
counted nowhere.

Without an XDP program, veth receives in NAPI only what may be merged on the way: GRO is on, and TSO
off at the sender (drivers/net/veth.c of Linux 6.18, veth_skb_is_eligible_for_gro). So both are so,
everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .scheduling import PROCESS, RECEIVER, run_first

CLIENT_CORE = 0
SERVER_CORE = 1

POLLED_NS = 50_000
POLLED_TIMES = 1000
"""Clients look for packets every 50 us, and give up after as many attempts without a packet. They
then need no interrupt: over a wire, too, the server does not pay for waking its clients."""

FAST_OPEN_CLIENT, FAST_OPEN_SERVER = "1", "1026"
"""Clients may use TCP Fast Open, and all listeners accept it, although BIND does not ask for it:
0x2 and 0x400 (Linux 6.18, Documentation/networking/ip-sysctl.rst, tcp_fastopen)."""

CLIENTS = 5
"""Addresses that clients use: the paper has five hosts."""


class LabError(Exception):
    """Something that the bench needs is missing: one line with the remedy.

    For a program that does not compile, the text has all that the compiler wrote.
    """


def run(*command: str, check: bool = True) -> str:
    """Runs a command to its end; returns its output.

    Raises:
        LabError: It failed; the text is its output.
    """
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise LabError(f"{' '.join(command)}: {said}")
    return done.stdout


PACKAGES = {
    "ip": "iproute2",
    "ethtool": "ethtool",
    "nsenter": "util-linux",
    "sysctl": "procps",
    "bpftool": "bpftool",
    "clang": "clang",
    "kxdpgun": "knot-dnsutils",
    "dig": "bind9-dnsutils",
    "dnsperf": "dnsperf",
    "named": "bind9",
    "nsd": "nsd",
    "knotd": "knot",
}
"""Debian's packages of the programs that benches call."""

HEADERS = {"/usr/include/bpf/bpf_helpers.h": "libbpf-dev", "/usr/include/libelf.h": "libelf-dev"}
"""Headers that the build of the eBPF programs includes, with their packages."""

MAKES_LABS = ("ip", "ethtool", "nsenter", "sysctl", "bpftool", "clang")
"""What a lab needs, and the counting of processor time (switches.py)."""


def program(name: str) -> str | None:
    """The path of a program; not every user has daemons on the path."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def require(command: str, programs: Sequence[str]) -> None:
    """Makes sure that a bench can run, before it builds or starts anything.

    Args:
        command: What runs it, for a message.
        programs: What it needs besides `MAKES_LABS`, of `PACKAGES`.

    Raises:
        LabError: Something is missing; it says what installs it.
    """
    if os.geteuid() != 0:
        raise LabError(f"needs root, for network namespaces; hint: sudo {command}")
    if (os.cpu_count() or 1) < 2:
        raise LabError("needs two cores: one for the generator, one for the server")
    missing = [name for name in (*MAKES_LABS, *programs) if program(name) is None]
    missing += [header for header in HEADERS if not Path(header).exists()]
    if missing:
        packages = " ".join({**PACKAGES, **HEADERS}[name] for name in missing)
        raise LabError(f"no {', '.join(missing)}; hint: apt-get install {packages}")


@dataclass(frozen=True)
class Link:
    """A server's namespace and its link to the clients."""

    number: int
    namespace: str
    client_namespace: str
    server_interface: str
    client_interface: str

    @property
    def server(self) -> str:
        """The server's IPv4 address."""
        return f"198.18.{self.number}.1"

    @property
    def server6(self) -> str:
        """The server's IPv6 address."""
        return f"fd18:{self.number}::1"

    @property
    def clients(self) -> list[str]:
        """The clients' IPv4 addresses."""
        return [f"198.18.{self.number}.{10 + index}" for index in range(CLIENTS)]

    @property
    def clients6(self) -> list[str]:
        """The clients' IPv6 addresses."""
        return [f"fd18:{self.number}::{10 + index}" for index in range(CLIENTS)]

    @property
    def ghost(self) -> str:
        """An unused IPv4 address of the clients' link."""
        return f"198.18.{self.number}.99"

    @property
    def ghost6(self) -> str:
        """An unused IPv6 address of the clients' link."""
        return f"fd18:{self.number}::99"

    def packets(self) -> int:
        """Packets that the link has carried in both directions, by the clients' interface.

        The server's interface does not count what an XDP program sends back.
        """
        shown = ["-s", "-j", "link", "show", "dev", self.client_interface]
        (device,) = json.loads(run("ip", "-n", self.client_namespace, *shown))
        return sum(device["stats64"][direction]["packets"] for direction in ("rx", "tx"))

    def attach_client_program(self, folder: Path | None) -> None:
        """Attaches a program to the clients' interface that passes everything; None detaches it."""
        to = ["off"] if folder is None else ["obj", str(folder / "pass.o"), "sec", "xdp"]
        interface = ["link", "set", "dev", self.client_interface]
        run("ip", "-n", self.client_namespace, *interface, "xdp", *to)

    def at_server(self, *command: str, core: int = SERVER_CORE) -> list[str]:
        """The command line that runs in the server's namespace, on the servers' core.

        It uses nsenter, because `ip netns exec` hides the BPF file system.
        """
        return [*_inside(self.namespace), *_pinned(core), *command]

    def at_client(self, *command: str, core: int = CLIENT_CORE) -> list[str]:
        """The command line that runs in the clients' namespace, on the clients' core."""
        return [*_inside(self.client_namespace), *_pinned(core), *command]


class Lab:
    """The namespaces of one run of the bench. It removes what it made, even after a failure."""

    def __init__(self, folder: Path) -> None:
        """`folder` gets the compiled programs."""
        self._folder = folder
        self.prefix = f"nrw-bench-{os.getpid()}"
        self.client_namespace = f"{self.prefix}-clients"
        self.links: list[Link] = []
        self._made: list[str] = []

    def __enter__(self) -> Lab:
        try:
            compiled("pass", self._folder)
            self._namespace(self.client_namespace)
            # A client forgets a connection when it is done: sockets in TIME_WAIT cost the generator
            # time, and are not part of the measurement.
            self._sysctl(self.client_namespace, "net.ipv4.tcp_max_tw_buckets", "0")
            self._sysctl(self.client_namespace, "net.ipv4.ip_local_port_range", "1024 65535")
            self._sysctl(self.client_namespace, "net.ipv4.tcp_fastopen", FAST_OPEN_CLIENT)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the namespaces, and their interfaces with them."""
        while self._made:
            run("ip", "netns", "del", self._made.pop(), check=False)

    def link(self, name: str) -> Link:
        """A new server's namespace, with its link up and its kernel threads pinned."""
        number = len(self.links) + 1
        made = Link(
            number=number,
            namespace=f"{self.prefix}-{name}",
            client_namespace=self.client_namespace,
            server_interface=f"b{os.getpid()}s{number}",
            client_interface=f"b{os.getpid()}c{number}",
        )
        self._namespace(made.namespace)
        self._sysctl(made.namespace, "net.ipv4.tcp_fastopen", FAST_OPEN_SERVER)
        self.links.append(made)
        ours, theirs = made.server_interface, made.client_interface
        run(
            *("ip", "link", "add", ours, "netns", made.namespace, "type", "veth"),
            *("peer", "name", theirs, "netns", self.client_namespace),
        )
        self._interface(made.namespace, ours, [made.server], [made.server6], SERVER_CORE)
        self._interface(self.client_namespace, theirs, made.clients, made.clients6, CLIENT_CORE)
        polled = f"/sys/class/net/{theirs}"
        for file, value in (
            ("gro_flush_timeout", POLLED_NS),
            ("napi_defer_hard_irqs", POLLED_TIMES),
        ):
            word = f"echo {value} > {polled}/{file}"
            run("ip", "netns", "exec", self.client_namespace, "sh", "-c", word)
        made.attach_client_program(self._folder)
        # No one resolves a neighbour during the measurement.
        clients = [*made.clients, *made.clients6, made.ghost, made.ghost6]
        for namespace, interface, peer, addresses in (
            (made.namespace, ours, (self.client_namespace, theirs), clients),
            (self.client_namespace, theirs, (made.namespace, ours), [made.server, made.server6]),
        ):
            mac = mac_address(*peer)
            for address in addresses:
                run(
                    *("ip", "-n", namespace, "neigh", "replace", address, "lladdr", mac),
                    *("dev", interface, "nud", "permanent"),
                )
        return made

    def _namespace(self, name: str) -> None:
        run("ip", "netns", "add", name)
        self._made.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def _interface(
        self, namespace: str, name: str, v4: Sequence[str], v6: Sequence[str], core: int
    ) -> None:
        run(*_inside(namespace), "ethtool", "-K", name, "gro", "on", "tso", "off")
        for address in v4:
            run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", name)
        for address in v6:
            run("ip", "-n", namespace, "address", "add", f"{address}/64", "dev", name, "nodad")
        run("ip", "-n", namespace, "link", "set", name, "up")
        threaded = f"/sys/class/net/{name}/threaded"
        run("ip", "netns", "exec", namespace, "sh", "-c", f"echo 1 > {threaded}")
        for thread in napi_threads(name):
            run("taskset", "-p", "-c", str(core), str(thread))
            run_first(thread, RECEIVER)

    def _sysctl(self, namespace: str, key: str, value: str) -> None:
        run(*_inside(namespace), "sysctl", "-q", "-w", f"{key}={value}")


def compiled(name: str, folder: Path) -> Path:
    """Compiles an eBPF program of this folder; returns the object file.

    Raises:
        LabError: It does not compile; the text is the compiler's output.
    """
    built = folder / f"{name}.o"
    source = Path(__file__).parent / f"{name}.bpf.c"
    machine = os.uname().machine
    target = {"x86_64": "x86", "aarch64": "arm64"}.get(machine, machine)
    flags = ["-O2", "-g", "-target", "bpf", f"-D__TARGET_ARCH_{target}"]
    include = f"-I/usr/include/{machine}-linux-gnu"
    command = ["clang", *flags, include, "-c", str(source), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError(f"{source.name} does not compile; clang says:\n{done.stderr.strip()}")
    return built


def napi_threads(interface: str) -> list[int]:
    """The kernel threads in which an interface receives; they exist once it is up.

    Raises:
        LabError: There is none.
    """
    found = []
    wanted = f"napi/{interface}-"
    for _ in range(50):
        for path in Path("/proc").glob("[0-9]*/comm"):
            try:
                name = path.read_text()
            except OSError:
                continue
            if name.startswith(wanted):
                found.append(int(path.parent.name))
        if found:
            return found
        time.sleep(0.02)
    raise LabError(
        f"{interface}: no kernel thread receives for it; hint: threaded NAPI needs Linux 5.12"
    )


def mac_address(namespace: str, interface: str) -> str:
    """An interface's hardware address."""
    words = run("ip", "-n", namespace, "-o", "link", "show", interface).split()
    return words[words.index("link/ether") + 1]


def _inside(namespace: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def _pinned(core: int) -> list[str]:
    return ["taskset", "-c", str(core), "chrt", "-f", str(PROCESS)]
