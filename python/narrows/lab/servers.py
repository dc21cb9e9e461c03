"""Servers at the path's far end: real ones as packages have them, and the emulated old one."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from narrows.lab.bed import SERVER, Bed
from narrows.lab.needs import PATH, LabError
from narrows.lab.old_server import OldServer

__all__ = ["SERVERS", "emulated", "real"]


def _nsd(folder: Path, zone: Path, settings: Mapping[str, str]) -> tuple[str, list[str]]:
    lines = ["server:", "  server-count: 1", f"  ip-address: {SERVER}"]
    lines += [f"  {name}: {value}" for name, value in settings.items()]
    lines += ['  username: ""', '  chroot: ""', f'  zonesdir: "{folder}"', '  database: ""']
    lines += [f'  pidfile: "{folder}/nsd.pid"', f'  xfrdfile: "{folder}/xfrd.state"']
    lines += [f'  zonelistfile: "{folder}/zone.list"', f'  xfrdir: "{folder}"']
    lines += ["  rrl-ratelimit: 0", "remote-control:", "  control-enable: no"]
    lines += ["zone:", "  name: .", f'  zonefile: "{zone}"']
    return "\n".join(lines) + "\n", ["nsd", "-d", "-c", f"{folder}/config"]


def _named(folder: Path, zone: Path, settings: Mapping[str, str]) -> tuple[str, list[str]]:
    lines = ["options {", f'  directory "{folder}";', f'  pid-file "{folder}/named.pid";']
    lines += [f"  listen-on {{ {SERVER}; }};", "  listen-on-v6 { none; };", "  recursion no;"]
    lines += [f"  {name} {value};" for name, value in settings.items()]
    lines += ["  notify no;", "  dnssec-validation no;", '  session-keyfile "session.key";', "};"]
    lines += ["controls { };", f'zone "." {{ type primary; file "{zone}"; }};']
    return "\n".join(lines) + "\n", ["named", "-g", "-n", "1", "-c", f"{folder}/config"]


def _knotd(folder: Path, zone: Path, settings: Mapping[str, str]) -> tuple[str, list[str]]:
    lines = ["server:", f"  listen: {SERVER}@53", f'  rundir: "{folder}"', "  tcp-workers: 1"]
    lines += [f"  {name}: {value}" for name, value in settings.items()]
    lines += ["  udp-workers: 1", "  background-workers: 1", "database:", f'  storage: "{folder}"']
    lines += ["control:", f'  listen: "{folder}/knot.sock"', "log:", "  - target: stderr"]
    lines += ["    any: info", "template:", "  - id: default", "    zonefile-load: whole"]
    lines += ["    journal-content: none", "zone:", "  - domain: .", f'    file: "{zone}"']
    return "\n".join(lines) + "\n", ["knotd", "-c", f"{folder}/config"]


def _unbound(folder: Path, zone: Path, settings: Mapping[str, str]) -> tuple[str, list[str]]:
    lines = ["server:", f"  interface: {SERVER}", '  username: ""', '  chroot: ""']
    lines += [f"  {name}: {value}" for name, value in settings.items()]
    lines += [f'  directory: "{folder}"', "  use-syslog: no", f'  pidfile: "{folder}/pid"']
    lines += ["  do-daemonize: no", "  num-threads: 1", "  access-control: 0.0.0.0/0 allow"]
    lines += ['  module-config: "iterator"', "remote-control:", "  control-enable: no"]
    lines += ["auth-zone:", '  name: "."', f'  zonefile: "{zone}"', "  for-upstream: no"]
    lines += ["  for-downstream: yes"]
    return "\n".join(lines) + "\n", ["unbound", "-d", "-p", "-c", f"{folder}/config"]


_CONFIGURE: dict[str, Callable[[Path, Path, Mapping[str, str]], tuple[str, list[str]]]] = {
    "nsd": _nsd,
    "named": _named,
    "knotd": _knotd,
    "unbound": _unbound,
}

SERVERS = tuple(_CONFIGURE)
"""Programs that `real` can run."""


@contextlib.contextmanager
def real(bed: Bed, program: str, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server of today until the block ends; the block gets its version.

    It serves a small root zone, whose SOA has an answer of some 700 bytes as in 2012.

    Args:
        bed: At whose far end.
        program: Of `SERVERS`.
        settings: More lines of the server section of its configuration.

    Raises:
        LabError: It is not installed, or does not start.
    """
    if not shutil.which(program, path=PATH):
        raise LabError(f"{program} is not installed; hint: sh tools/install_test_tools.sh")
    with tempfile.TemporaryDirectory(prefix=f"narrows-{program}-") as name:
        folder = Path(name)
        zone = folder / "root.zone"
        zone.write_text(ROOT_ZONE)
        text, words = _CONFIGURE[program](folder, zone, settings or {})
        (folder / "config").write_text(text)
        with (folder / "log").open("wb") as log, _process(bed, words, log.fileno()) as process:
            _await_answer(bed, program, process, folder / "log")
            yield version(program)


@contextlib.contextmanager
def emulated(bed: Bed, settings: OldServer) -> Iterator[None]:
    """The old server until the block ends.

    Raises:
        LabError: It does not start.
    """
    words = [sys.executable, "-c", PROGRAM, settings.text()]
    with tempfile.TemporaryFile() as log, _process(bed, words, log.fileno()) as process:
        until = time.monotonic() + START_S
        while os.pread(log.fileno(), 6, 0) != b"ready\n":
            if process.poll() is not None or time.monotonic() > until:
                said = os.pread(log.fileno(), 4096, 0).decode(errors="replace").splitlines()
                raise LabError(f"old server: {said[-1] if said else 'does not start'}")
            time.sleep(0.01)
        yield


def version(program: str) -> str:
    """What a server says of its version."""
    flag = {"nsd": "-v", "named": "-v", "knotd": "-V", "unbound": "-V"}[program]
    done = subprocess.run(
        [program, flag], capture_output=True, text=True, env={**os.environ, "PATH": PATH}
    )
    words = (done.stdout or done.stderr).split()
    found = next((word for word in words if word[:1].isdigit() and "." in word), "unknown")
    return f"{program} {found}"


PROGRAM = "import sys; from narrows.lab.old_server import main; main(sys.argv[1])"

START_S = 20.0
"""How long a server may take to answer."""


@contextlib.contextmanager
def _process(bed: Bed, words: list[str], log: int) -> Iterator[subprocess.Popen[bytes]]:
    process = bed.server.start(words, log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_answer(bed: Bed, program: str, process: subprocess.Popen[bytes], log: Path) -> None:
    query = b"\x07\x07\0\0\0\x01\0\0\0\0\0\0\0\0\x06\0\x01"
    until = time.monotonic() + START_S
    with bed.server.inside():
        asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with asking:
        asking.settimeout(0.2)
        while True:
            with contextlib.suppress(OSError):
                asking.sendto(query, (SERVER, 53))
                if asking.recv(4096)[3] & 15 == 0:
                    return
            if process.poll() is not None or time.monotonic() > until:
                said = log.read_text(errors="replace").splitlines()
                raise LabError(f"{program}: {said[-1] if said else 'does not answer'}")
            time.sleep(0.05)


def _root_zone() -> str:
    """Thirteen servers with both addresses, as the root zone has; all names are documentation's."""
    lines = ["$TTL 518400"]
    lines += [". IN SOA a.servers.example. host.registry.example. 2012092000 1800 900 604800 86400"]
    for number, letter in enumerate("abcdefghijklm", start=1):
        lines += [f". IN NS {letter}.servers.example."]
        lines += [f"{letter}.servers.example. IN A 192.0.2.{number}"]
        lines += [f"{letter}.servers.example. IN AAAA 2001:db8::{number}"]
    return "\n".join(lines) + "\n"


ROOT_ZONE = _root_zone()
