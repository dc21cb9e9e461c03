"""Unmodified DNS servers with their defaults; only zones, addresses and paths are configured."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dns.message

from ..network import Namespace
from .clients import installed
from .real_zones import ZONES

Files = dict[str, Path]


@dataclass(frozen=True)
class RealServer:
    """A server program."""

    name: str
    program: str
    version: Callable[[], str | None]
    configure: Callable[[Path, Files, str, Options], list[str]]


@dataclass(frozen=True)
class Options:
    """What a trial asks for beyond the defaults."""

    udp_bytes: int | None = None
    """The longest reply over UDP."""
    fast_open: bool = False
    """Whether to turn on Fast Open, for servers where it is an option."""
    tls: bool = False
    """Whether to serve TLS on port 853, and HTTPS on port 443, for servers that can."""
    long_chain: bool = False
    """Whether its certificates have more than 4096 bytes."""
    quic: str | None = None
    """The device on which Knot DNS speaks QUIC; its 3.2 does so by XDP alone."""

    @property
    def certificates(self) -> Path:
        """The file of the server's certificates."""
        return LONG_CHAIN if self.long_chain else CHAIN


CHAIN = Path(__file__).parent / "certificates" / "chain.pem"
"""The server's certificate of 1010 bytes and an intermediate one of 1271, both with keys of RSA."""
LONG_CHAIN = CHAIN.with_name("long.pem")
"""The same two, twice."""
KEY = CHAIN.with_name("key.pem")

DEFAULTS = Options()


def nsd(folder: Path, files: Files, address: str, options: Options) -> list[str]:
    """NSD."""
    lines = ["server:", f"  ip-address: {address}", '  username: ""', '  chroot: ""']
    lines += [f'  zonesdir: "{folder}"', '  database: ""', f'  pidfile: "{folder}/pid"']
    lines += [f'  xfrdfile: "{folder}/xfrd"', f'  zonelistfile: "{folder}/list"']
    lines += [f'  xfrdir: "{folder}"', "  rrl-ratelimit: 0"]
    if options.tls:
        lines += [f"  ip-address: {address}@853", "  tls-port: 853"]
        lines += [f'  tls-service-key: "{KEY}"', f'  tls-service-pem: "{options.certificates}"']
    if options.udp_bytes:
        lines += [f"  ipv4-edns-size: {options.udp_bytes}"]
    lines += ["remote-control:", "  control-enable: no"]
    for kind, file in files.items():
        lines += ["zone:", f'  name: "{ZONES[kind].name or "."}"', f'  zonefile: "{file}"']
    (folder / "nsd.conf").write_text("\n".join(lines) + "\n")
    return ["nsd", "-d", "-c", f"{folder}/nsd.conf"]


def bind(folder: Path, files: Files, address: str, options: Options) -> list[str]:
    """BIND, authoritative."""
    lines = [f'options {{ directory "{folder}"; pid-file "{folder}/pid";']
    lines += [f"listen-on {{ {address}; }}; listen-on-v6 {{ none; }};", "recursion no;"]
    lines += ["notify no;", 'session-keyfile "session.key";']
    if options.udp_bytes:
        lines += [f"max-udp-size {options.udp_bytes};"]
    if options.tls:
        lines += [f"listen-on port 853 tls own {{ {address}; }};"]
        lines += [f"listen-on port 443 tls own http default {{ {address}; }};"]
    lines += ["};", "controls { };"]
    if options.tls:
        lines += [f'tls own {{ cert-file "{options.certificates}"; key-file "{KEY}"; }};']
    for kind, file in files.items():
        lines += [f'zone "{ZONES[kind].name or "."}" {{ type primary; file "{file}"; }};']
    (folder / "named.conf").write_text("\n".join(lines) + "\n")
    return ["named", "-g", "-n", "1", "-c", f"{folder}/named.conf"]


def knot(folder: Path, files: Files, address: str, options: Options) -> list[str]:
    """Knot DNS."""
    lines = ["server:", f"  listen: {address}@53", f'  rundir: "{folder}"']
    if options.udp_bytes:
        lines += [f"  udp-max-payload: {options.udp_bytes}"]
    if options.quic:
        # As the user `knot`, it could not open XDP sockets here.
        lines += ["  user: root:root"]
    lines += ["database:", f'  storage: "{folder}"', "control:", f'  listen: "{folder}/sock"']
    if options.quic:
        lines += ["xdp:", f"  listen: {options.quic}@53", "  udp: off", "  quic: on"]
    lines += ["log:", "  - target: stderr", "    any: info", "zone:"]
    for kind, file in files.items():
        lines += [f'  - domain: "{ZONES[kind].name or "."}"', f'    file: "{file}"']
    (folder / "knot.conf").write_text("\n".join(lines) + "\n")
    return ["knotd", "-c", f"{folder}/knot.conf"]


def unbound(folder: Path, files: Files, address: str, options: Options) -> list[str]:
    """Unbound, with the zones as its own, so that it asks nobody."""
    lines = ["server:", f"  interface: {address}", '  username: ""', '  chroot: ""']
    lines += [f'  directory: "{folder}"', f'  pidfile: "{folder}/pid"', "  do-daemonize: no"]
    lines += ["  use-syslog: no", "  access-control: 0.0.0.0/0 allow"]
    if options.tls:
        lines += [f"  interface: {address}@853", "  tls-port: 853"]
        lines += [f'  tls-service-key: "{KEY}"', f'  tls-service-pem: "{options.certificates}"']
    lines += ['  module-config: "iterator"', '  local-zone: "test." nodefault']
    lines += ["remote-control:", "  control-enable: no"]
    for kind, file in files.items():
        lines += ["auth-zone:", f'  name: "{ZONES[kind].name or "."}"', f'  zonefile: "{file}"']
        lines += ["  for-upstream: no", "  for-downstream: yes"]
    (folder / "unbound.conf").write_text("\n".join(lines) + "\n")
    return ["unbound", "-d", "-p", "-c", f"{folder}/unbound.conf"]


BEHIND = "127.0.0.53"
"""The address of NSD behind dnsdist, in the same namespace."""


def dnsdist(folder: Path, files: Files, address: str, options: Options) -> list[str]:
    """dnsdist, in front of an NSD on the same machine."""
    more = "{tcpFastOpenQueueSize=16}" if options.fast_open else "{}"
    lines = [f"setLocal('{address}', {more})", "setACL({'0.0.0.0/0'})"]
    lines += [f"newServer({{address='{BEHIND}', healthCheckMode='up'}})"]
    if options.tls:
        lines += [f"addTLSLocal('{address}:853', '{options.certificates}', '{KEY}')"]
        lines += [f"addDOHLocal('{address}:443', '{options.certificates}', '{KEY}', '/dns-query')"]
    (folder / "dnsdist.conf").write_text("\n".join(lines) + "\n")
    return ["dnsdist", "--supervised", "--disable-syslog", "-C", f"{folder}/dnsdist.conf"]


SERVERS = (
    RealServer("nsd", "nsd", installed(["nsd", "-v"]), nsd),
    RealServer("bind", "named", installed(["named", "-v"]), bind),
    RealServer("knot", "knotd", installed(["knotd", "--version"]), knot),
    RealServer("unbound", "unbound", installed(["unbound", "-V"]), unbound),
    RealServer("dnsdist", "dnsdist", installed(["dnsdist", "--version"]), dnsdist),
)


def two_writes(folder: Path, files: Files, address: str, options: Options) -> list[str]:
    """Our own server with two writes and Nagle's algorithm."""
    return [sys.executable, str(Path(__file__).parent / "two_writes.py"), address]


def two_writes_nodelay(folder: Path, files: Files, address: str, options: Options) -> list[str]:
    """Our own server with two writes and without Nagle's algorithm."""
    return [*two_writes(folder, files, address, options), "nodelay"]


OURS = (
    RealServer("two-writes", "python3", lambda: "two_writes.py", two_writes),
    RealServer("two-writes-nodelay", "python3", lambda: "two_writes.py", two_writes_nodelay),
)
"""Servers of our own, which do what no server does any more."""


def missing() -> list[str]:
    """Programs that are not installed."""
    programs = [server.program for server in SERVERS] + ["dnssec-signzone"]
    return [program for program in programs if not shutil.which(program)]


@contextlib.contextmanager
def serving(
    server: RealServer,
    space: Namespace,
    folder: Path,
    files: Files,
    address: str,
    options: Options = DEFAULTS,
) -> Iterator[None]:
    """Runs a server at an address; it answers when the block begins."""
    with contextlib.ExitStack() as stack:
        if server.name == "dnsdist":
            behind = next(other for other in SERVERS if other.name == "nsd")
            inner = serving(behind, space, folder / "behind", files, BEHIND, options)
            stack.enter_context(inner)
        folder.mkdir(parents=True, exist_ok=True)
        words = server.configure(folder, files, address, options)
        log = stack.enter_context((folder / "log").open("wb"))
        process = space.start(words, log, stdin=subprocess.DEVNULL)
        stack.callback(process.wait)
        # NSD's and Knot's processes end with the first one if it is asked to end.
        stack.callback(process.terminate)
        until = time.monotonic() + 20
        while not answers(space, address):
            if process.poll() is not None or time.monotonic() > until:
                text = (folder / "log").read_text(errors="replace")[-1500:]
                raise RuntimeError(f"{server.name} does not answer: {text}")
            time.sleep(0.05)
        yield


def answers(space: Namespace, address: str) -> bool:
    """Whether the server answers for the zone."""
    query = dns.message.make_query("plain.test", "SOA").to_wire()
    with space.inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sock:
        sock.settimeout(0.2)
        try:
            sock.connect((address, 53))
            sock.send(query)
            return sock.recv(4096)[3] & 15 == 0
        except OSError:
            return False
