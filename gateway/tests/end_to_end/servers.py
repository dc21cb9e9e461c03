"""Unmodified DNS servers from Debian's packages, with an operator's usual settings and no more."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.network import Namespace

from . import zones

PROGRAMS = {
    "nsd": "nsd",
    "bind": "named",
    "knot": "knotd",
    "unbound": "unbound",
    "powerdns": "pdns_server",
}
Configure = Callable[[Path, dict[str, Path], Sequence[str]], list[str]]
"""Writes a server's configuration, and returns its command line."""
AUTHORITATIVE = ("nsd", "bind", "knot", "powerdns")


@dataclass
class Server:
    """A running server."""

    kind: str
    space: Namespace
    folder: Path
    addresses: Sequence[str]
    process: subprocess.Popen[bytes]

    def queries(self) -> int:
        """How many queries it has seen, by its own counter."""
        if self.kind == "nsd":
            config = str(self.folder / "nsd.conf")
            for line in self.space.run("nsd-control", "-c", config, "stats_noreset").splitlines():
                if line.startswith("num.queries="):
                    return int(line.split("=")[1])
        if self.kind == "knot":
            socket = str(self.folder / "knot.sock")
            total = 0
            for line in self.space.run("knotc", "-s", socket, "stats").splitlines():
                if line.startswith("mod-stats.request-protocol["):
                    total += int(line.split("=")[1])
            return total
        raise ValueError(f"{self.kind} is not asked for its count here")


def nsd(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
    """NSD, with UDP replies as long as it can send them.

    Without `minimal-responses` it leaves out the NS records of replies above 1480 bytes, over UDP
    alone.
    """
    lines = ["server:", "  server-count: 1", "  tcp-count: 400", "  minimal-responses: yes"]
    lines += [f"  ip-address: {address}" for address in addresses]
    lines += ['  username: ""', '  chroot: ""', f'  zonesdir: "{folder}"', '  database: ""']
    lines += [f'  pidfile: "{folder}/nsd.pid"', f'  xfrdfile: "{folder}/xfrd.state"']
    lines += [f'  zonelistfile: "{folder}/zone.list"', f'  xfrdir: "{folder}"']
    lines += ["  ipv4-edns-size: 65500", "  ipv6-edns-size: 65500", "  rrl-ratelimit: 0"]
    lines += ["remote-control:", "  control-enable: yes"]
    lines += [f'  control-interface: "{folder}/nsd.sock"']
    lines += ["key:", f"  name: {zones.KEY_NAME}", "  algorithm: hmac-sha256"]
    lines += [f'  secret: "{zones.KEY_SECRET}"']
    for zone, file in files.items():
        lines += ["zone:", f"  name: {zone}", f'  zonefile: "{file}"']
        lines += ["  provide-xfr: 0.0.0.0/0 NOKEY", "  provide-xfr: ::/0 NOKEY"]
    (folder / "nsd.conf").write_text("\n".join(lines) + "\n")
    return ["nsd", "-d", "-c", f"{folder}/nsd.conf"]


def bind(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
    """BIND, with its own size over UDP (1232 bytes) and the paper's `tcp-clients 150`.

    Without `minimal-responses` it leaves out additional records that do not fit, over UDP alone.
    """
    four = " ".join(f"{address};" for address in addresses if ":" not in address)
    six = " ".join(f"{address};" for address in addresses if ":" in address)
    lines = ["options {", f'  directory "{folder}";', f'  pid-file "{folder}/named.pid";']
    lines += [f"  listen-on {{ {four} }};", f"  listen-on-v6 {{ {six} }};", "  recursion no;"]
    lines += ["  tcp-clients 150;", "  allow-transfer { any; };", "  rrset-order { order none; };"]
    lines += ["  minimal-responses yes;"]
    lines += ["  notify no;", "  dnssec-validation no;", '  session-keyfile "session.key";', "};"]
    lines += [f"key {zones.KEY_NAME} {{ algorithm hmac-sha256;"]
    lines += [f'  secret "{zones.KEY_SECRET}"; }};', "controls { };"]
    for zone, file in files.items():
        lines += [f'zone {zone} {{ type primary; file "{file}"; }};']
    (folder / "named.conf").write_text("\n".join(lines) + "\n")
    return ["named", "-g", "-n", "1", "-c", f"{folder}/named.conf"]


def knot(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
    """Knot, with the longest UDP replies it allows (4096 bytes)."""
    listen = ", ".join(f"{address}@53" for address in addresses)
    lines = ["server:", f"  listen: [ {listen} ]", f'  rundir: "{folder}"', "  tcp-workers: 1"]
    lines += ["  udp-workers: 1", "  background-workers: 1", "  udp-max-payload: 4096"]
    lines += ["database:", f'  storage: "{folder}"', "control:", f'  listen: "{folder}/knot.sock"']
    lines += ["log:", "  - target: stderr", "    any: info"]
    lines += ["key:", f"  - id: {zones.KEY_NAME}", "    algorithm: hmac-sha256"]
    lines += [f'    secret: "{zones.KEY_SECRET}"']
    lines += ["acl:", "  - id: transfer", "    action: transfer"]
    lines += ["  - id: signed-transfer", "    action: transfer", f"    key: {zones.KEY_NAME}"]
    lines += ["mod-stats:", "  - id: all", "    request-protocol: on"]
    lines += ["template:", "  - id: default", "    global-module: mod-stats/all"]
    lines += ["    acl: [ transfer, signed-transfer ]", "    zonefile-load: whole"]
    lines += ["    journal-content: none", "zone:"]
    for zone, file in files.items():
        lines += [f"  - domain: {zone}", f'    file: "{file}"']
    (folder / "knot.conf").write_text("\n".join(lines) + "\n")
    return ["knotd", "-c", f"{folder}/knot.conf"]


def unbound(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
    """Unbound with the zones as local data, so that it asks nobody."""
    lines = ["server:", *(f"  interface: {address}" for address in addresses)]
    lines += ['  username: ""', '  chroot: ""', f'  directory: "{folder}"', "  use-syslog: no"]
    lines += [f'  pidfile: "{folder}/unbound.pid"', "  do-daemonize: no", "  num-threads: 1"]
    lines += ["  access-control: 0.0.0.0/0 allow", "  access-control: ::/0 allow"]
    lines += ['  module-config: "iterator"', "  max-udp-size: 65535", "  rrset-roundrobin: no"]
    lines += ['  local-zone: "test." nodefault']
    lines += ["  incoming-num-tcp: 400", "  verbosity: 1", "remote-control:"]
    lines += ["  control-enable: no"]
    for zone, file in files.items():
        lines += ["auth-zone:", f"  name: {zone}", f'  zonefile: "{file}"']
        lines += ["  for-upstream: no", "  for-downstream: yes"]
    (folder / "unbound.conf").write_text("\n".join(lines) + "\n")
    return ["unbound", "-d", "-p", "-c", f"{folder}/unbound.conf"]


def powerdns(folder: Path, files: dict[str, Path], addresses: Sequence[str]) -> list[str]:
    """PowerDNS with BIND's zone files, and UDP replies as long as it can send them.

    Without `no-shuffle` it gives the records of a set in another order each time.
    """
    database, zone_list = folder / "keys.sqlite", folder / "named.conf"
    lines = ["launch=bind", f"bind-config={zone_list}", f"bind-dnssec-db={database}"]
    lines += [f"local-address={', '.join(addresses)}", f"socket-dir={folder}"]
    lines += ["udp-truncation-threshold=65535", "no-shuffle=yes", "max-tcp-connections=400"]
    lines += ["allow-axfr-ips=0.0.0.0/0, ::/0", "receiver-threads=1", "distributor-threads=1"]
    lines += ["version-string=anonymous", "security-poll-suffix="]
    (folder / "pdns.conf").write_text("\n".join(lines) + "\n")
    listed = [f'zone "{zone}" {{ type master; file "{file}"; }};' for zone, file in files.items()]
    zone_list.write_text("\n".join(listed) + "\n")
    tool = ["pdnsutil", f"--config-dir={folder}"]
    for words in (
        ["create-bind-db", str(database)],
        ["import-tsig-key", zones.KEY_NAME, "hmac-sha256", zones.KEY_SECRET],
        ["set-presigned", zones.SIGNED],
    ):
        subprocess.run([*tool, *words], check=True, capture_output=True, env={"PATH": PATH})
    return ["pdns_server", f"--config-dir={folder}", "--daemon=no", "--guardian=no"]


def limited(
    folder: Path, files: dict[str, Path], addresses: Sequence[str], slip: int, cookies: bool
) -> list[str]:
    """BIND with a rate limit for each client, which wants cookies over UDP."""
    words = bind(folder, files, addresses)
    config = folder / "named.conf"
    more = f"  rate-limit {{ responses-per-second 5; slip {slip}; ipv4-prefix-length 32; }};"
    if cookies:
        more += "\n  require-server-cookie yes;"
    config.write_text(config.read_text().replace("  notify no;", f"{more}\n  notify no;"))
    return words


CONFIGURE = {"nsd": nsd, "bind": bind, "knot": knot, "unbound": unbound, "powerdns": powerdns}


def missing(kinds: Sequence[str] = tuple(PROGRAMS)) -> list[str]:
    """The servers that are not installed."""
    return [kind for kind in kinds if not shutil.which(PROGRAMS[kind], path=PATH)]


PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"


@contextlib.contextmanager
def serve(
    kind: str,
    space: Namespace,
    folder: Path,
    files: dict[str, Path],
    addresses: Sequence[str],
    configure: Configure | None = None,
) -> Iterator[Server]:
    """Runs a server until the block ends; it answers from the start of the block."""
    folder.mkdir(parents=True)
    words = (configure or CONFIGURE[kind])(folder, files, addresses)
    with (folder / "log").open("wb") as log:
        process = space.start(words, log, stdin=subprocess.DEVNULL, env={"PATH": PATH})
    try:
        await_answer(kind, space, process, folder, addresses)
        yield Server(kind, space, folder, addresses, process)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_answer(
    kind: str,
    space: Namespace,
    process: subprocess.Popen[bytes],
    folder: Path,
    addresses: Sequence[str],
) -> None:
    """Waits until every address answers for every zone."""
    from .clients import ask_udp, query

    until = time.monotonic() + 20
    waiting = [(a, zone) for a in addresses for zone in (zones.ZONE, zones.TRANSFER)]
    while waiting:
        address, zone = waiting[0]
        reply = ask_udp(space, address, query(zone, "SOA"), timeout=0.2)
        if reply and reply[3] & 15 == 0:
            waiting.pop(0)
        elif process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{kind} does not answer: {(folder / 'log').read_text()[-2000:]}")
        else:
            time.sleep(0.05)
