"""Servers at the path's far end: real ones from packages, and the emulated old one."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from narrows.testbed.bed import SERVER, Bed
from narrows.testbed.namespace import await_ready
from narrows.testbed.needs import BedError
from narrows.testbed.old_server import OldServer
from narrows.testbed.software import SOFTWARE, Setup

_BY_PROGRAM = {software.program: software for software in SOFTWARE.values()}

SERVERS = tuple(_BY_PROGRAM)
"""Programs that `real` can run."""


@contextlib.contextmanager
def real(
    bed: Bed, program: str, settings: Mapping[str, str] | None = None, root: str | None = None
) -> Iterator[str]:
    """Runs a current server until the block ends; the block gets its version.

    Args:
        bed: The bed; the server runs at its far end.
        program: One of `SERVERS`.
        settings: More lines for the server section of its configuration.
        root: The root zone that it serves, as a zone file; by default one with thirteen servers.

    Raises:
        BedError: It is not installed, or does not start.
    """
    software = _BY_PROGRAM[program]
    software.need()
    with tempfile.TemporaryDirectory(prefix=f"narrows-{program}-") as name:
        folder = Path(name)
        zone = folder / "root.zone"
        zone.write_text(ROOT_ZONE if root is None else root)
        text = software.configure(Setup(str(folder), str(zone), [SERVER], settings or {}))
        (folder / "config").write_text(text)
        words = software.command(str(folder))
        with (folder / "log").open("wb") as log, bed.server.running(words, log) as process:
            _await_answer(bed, program, process, folder / "log")
            yield software.version()


@contextlib.contextmanager
def emulated(bed: Bed, settings: OldServer) -> Iterator[None]:
    """Runs the emulated old server until the block ends.

    Raises:
        BedError: It does not start.
    """
    words = [sys.executable, "-c", PROGRAM, settings.text()]
    with tempfile.TemporaryFile() as log, bed.server.running(words, log) as process:
        await_ready(process, log, "old server")
        yield


PROGRAM = "import sys; from narrows.testbed.old_server import main; main(sys.argv[1])"

START_S = 20.0
"""Seconds that a server may take to answer."""


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
                raise BedError(f"{program}: {said[-1] if said else 'does not answer'}")
            time.sleep(0.05)


def _root_zone() -> str:
    """Thirteen servers with both addresses, as in the root zone. All names are examples."""
    lines = ["$TTL 518400"]
    lines += [". IN SOA a.servers.example. host.registry.example. 2012092000 1800 900 604800 86400"]
    for number, letter in enumerate("abcdefghijklm", start=1):
        lines += [f". IN NS {letter}.servers.example."]
        lines += [f"{letter}.servers.example. IN A 192.0.2.{number}"]
        lines += [f"{letter}.servers.example. IN AAAA 2001:db8::{number}"]
    return "\n".join(lines) + "\n"


ROOT_ZONE = _root_zone()
