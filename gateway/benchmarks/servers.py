"""The servers, unmodified, from Debian's packages, with one zone and one worker each.

What differs from their defaults, and why: no rate limit (the load comes from five addresses), room
for as many TCP connections as the load opens, UDP answers up to 4096 bytes, zone transfers for
everybody, and one worker, because the servers have one core. Knot's XDP mode is Knot with `xdp` on
the interface and TCP in it.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import cpu
from .lab import PACKAGES, SERVER_CORE, LabError, Link, program, run

ZONE = "example.net"
NAMES = 1000
"""Names with an address: h0000000 to h0000999, 20 characters with the zone, like the paper's."""

SERVERS = {"bind": "named", "nsd": "nsd", "knot": "knotd"}
"""Programs by server."""

CONNECTIONS = 30_000
"""TCP connections that every server may have open."""


def zone_text() -> str:
    """The zone: hosts, and records with answers of 2000 and 12,000 bytes."""
    lines = [
        f"$ORIGIN {ZONE}.",
        "$TTL 3600",
        "@ SOA ns hostmaster 1 3600 900 604800 300",
        "@ NS ns",
        "ns A 192.0.2.1",
    ]
    lines += [
        f"h{number:07} A 192.0.2.{1 + number % 250}\nh{number:07} AAAA 2001:db8::{number:x}"
        for number in range(NAMES)
    ]
    for name, strings in (("large", 10), ("huge", 60)):
        lines += [f'{name} TXT "{number:03} {"x" * 196}"' for number in range(strings)]
    return "\n".join(lines) + "\n"


@dataclass
class Server:
    """A running server."""

    name: str
    process: subprocess.Popen[bytes]
    folder: Path
    processes: list[int] = field(default_factory=list)
    """Its process and those that it forked."""

    def stop(self) -> None:
        """Ends it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def log(self) -> str:
        """Its output."""
        return (self.folder / "log").read_text(errors="replace")


def versions() -> dict[str, str]:
    """The version that each server reports."""
    found = {}
    for name, flag in (("named", "-v"), ("nsd", "-v"), ("knotd", "-V")):
        path = program(name)
        if path is not None:
            said = subprocess.run([path, flag], capture_output=True, text=True)
            found[name] = (said.stdout or said.stderr).strip().splitlines()[0]
    return found


def start(name: str, link: Link, folder: Path, *, xdp: bool = False) -> Server:
    """Starts a server in the link's namespace, and waits until it answers over UDP.

    Args:
        name: One of `SERVERS`.
        link: The link of its namespace.
        folder: A folder for its configuration, zone, state and log.
        xdp: Whether to use Knot's own XDP mode.

    Raises:
        LabError: It is not installed, or it ended.
    """
    binary = program(SERVERS[name])
    if binary is None:
        package = PACKAGES[SERVERS[name]]
        raise LabError(f"{name} is not installed; hint: apt-get install {package}")
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    (folder / "zone").write_text(zone_text())
    configuration = folder / "conf"
    arguments = _WRITERS[name](link, folder, configuration, xdp)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            link.at_server(binary, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    return Server(name, process, folder)


def settle(server: Server) -> None:
    """Records the server's processes once it has answered, and keeps them on their core.

    Knot's workers choose cores themselves.
    """
    server.processes = cpu.descendants(server.process.pid)
    for process in server.processes:
        run("taskset", "-a", "-p", "-c", str(SERVER_CORE), str(process))


def _bind(link: Link, folder: Path, configuration: Path, xdp: bool) -> list[str]:
    configuration.write_text(f"""
options {{
    directory "{folder}";
    pid-file none;
    session-keyfile none;
    listen-on {{ {link.server}; }};
    listen-on-v6 {{ {link.server6}; }};
    recursion no;
    dnssec-validation no;
    empty-zones-enable no;
    notify no;
    tcp-clients {CONNECTIONS};
    tcp-listen-queue 4096;
    max-udp-size 4096;
    allow-transfer {{ any; }};
}};
controls {{ }};
logging {{ category default {{ default_stderr; }}; category queries {{ null; }}; }};
zone "{ZONE}" {{ type primary; file "zone"; }};
""")
    return ["-f", "-n", "1", "-c", str(configuration), "-g"]


def _nsd(link: Link, folder: Path, configuration: Path, xdp: bool) -> list[str]:
    configuration.write_text(f"""
server:
    ip-address: {link.server}
    ip-address: {link.server6}
    username: ""
    zonesdir: "{folder}"
    database: ""
    pidfile: ""
    xfrdfile: ""
    zonelistfile: "{folder}/zones"
    server-count: 1
    tcp-count: {CONNECTIONS}
    ipv4-edns-size: 4096
    ipv6-edns-size: 4096
    rrl-ratelimit: 0
    verbosity: 0
remote-control:
    control-enable: no
zone:
    name: {ZONE}
    zonefile: zone
    provide-xfr: 0.0.0.0/0 NOKEY
    provide-xfr: ::/0 NOKEY
""")
    return ["-d", "-c", str(configuration)]


def _knot(link: Link, folder: Path, configuration: Path, xdp: bool) -> list[str]:
    own = f"""
xdp:
    listen: {link.server_interface}@53
    tcp: on
    route-check: off
"""
    configuration.write_text(f"""
server:
    rundir: "{folder}"
    listen: [ {link.server}@53, {link.server6}@53 ]
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    tcp-max-clients: {CONNECTIONS}
    udp-max-payload: 4096
{own if xdp else ""}
log:
  - target: stderr
    any: warning
database:
    storage: "{folder}"
acl:
  - id: transfer
    address: [ 0.0.0.0/0, ::/0 ]
    action: transfer
zone:
  - domain: {ZONE}
    storage: "{folder}"
    file: zone
    acl: transfer
""")
    return ["-c", str(configuration)]


_WRITERS: dict[str, Callable[[Link, Path, Path, bool], list[str]]] = {
    "bind": _bind,
    "nsd": _nsd,
    "knot": _knot,
}
