"""The cost of a turn of `kept_connections.py`, and what `--load passed` puts before the server."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import front
from .beds import Bed
from .cpu import Meter, threads
from .lab import LabError, napi_threads, run
from .switches import Switches

PROC = Path("/proc")

Before = Callable[[Bed], contextlib.AbstractContextManager[None]]
"""What stands before a server for a turn."""


@dataclass(frozen=True)
class Turn:
    """The cost of a query in one turn, in microseconds, and the events behind it."""

    queries: int
    kernel_us: float
    """Of the thread that receives."""
    server_us: float
    """Of the server, with what the kernel does in its system calls."""
    gateway_us: float
    happened: dict[str, float]
    """How often each of `happenings` came, per query."""

    @property
    def us(self) -> float:
        """The total cost."""
        return self.kernel_us + self.server_us + self.gateway_us


def measure(bed: Bed, switches: Switches, load: Callable[[], int]) -> Turn:
    """One turn; `load` gives how many queries were answered."""
    gateway = [bed.gateway.process.pid] if bed.gateway is not None else []
    kernel = Meter(napi_threads(bed.link.server_interface), switches)
    server, front_ = Meter(bed.server.processes, switches), Meter(gateway, switches)
    before = happenings(bed)
    queries = load()
    after = happenings(bed)
    spent = [meter.spent_s() / queries * 1e6 for meter in (kernel, server, front_)]
    happened = {name: (number - before[name]) / queries for name, number in after.items()}
    return Turn(queries, spent[0], spent[1], spent[2], happened)


SEGMENTS = {"segments_in": "InSegs", "segments_out": "OutSegs", "segments_again": "RetransSegs"}
"""Our names for counters of /proc/net/snmp."""


def happenings(bed: Bed) -> dict[str, int]:
    """The counters of the server's namespace.

    frames_in       frames that arrived at the interface
    segments_in     segments that arrived at the kernel's TCP; GRO may join frames to one
    segments_out    segments that the kernel's TCP sent, counted as the frames that they become
    segments_again  those of them that were retransmissions
    receiver_waits  how often the receiving thread ran out of work and waited
    server_waits    how often the server's threads ran out of work and waited
    """
    net = PROC / str(bed.server.process.pid) / "net"
    names, values = (
        line.split() for line in (net / "snmp").read_text().splitlines() if line[:4] == "Tcp:"
    )
    tcp = dict(zip(names, values, strict=True))
    receivers = napi_threads(bed.link.server_interface)
    return {
        "frames_in": int(_device(bed)[1]),
        **{ours: int(tcp[name]) for ours, name in SEGMENTS.items()},
        "receiver_waits": sum(map(_waits, receivers)),
        "server_waits": sum(map(_waits, threads(bed.server.processes))),
    }


def _device(bed: Bed) -> list[str]:
    """The counters of the server's interface: octets and frames that arrived, and others."""
    text = (PROC / str(bed.server.process.pid) / "net/dev").read_text()
    (line,) = re.findall(rf"{bed.link.server_interface}: *(.*)", text)
    return str(line).split()


def _waits(thread: int) -> int:
    status = (PROC / str(thread) / "status").read_text()
    (number,) = re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
    return int(number)


@contextlib.contextmanager
def nothing(_: Bed) -> Iterator[None]:
    """The kernel alone."""
    yield


@contextlib.contextmanager
def passing_program(bed: Bed) -> Iterator[None]:
    """A program in native XDP that passes everything, to see what the mode costs."""
    interface = ["ip", "-n", bed.link.namespace, "link", "set", "dev", bed.link.server_interface]
    run(*interface, "xdpdrv", "obj", str(bed.folder / "pass.o"), "sec", "xdp")
    try:
        yield
    finally:
        run(*interface, "xdpdrv", "off")


def behind(program: Path, **settings: object) -> Before:
    """The gateway, with these settings."""

    @contextlib.contextmanager
    def before(bed: Bed) -> Iterator[None]:
        bed.gateway = front.start(program, bed.link, bed.server.folder, settings)
        try:
            yield
        finally:
            bed.gateway.stop()
            bed.gateway = None

    return before


class Kept:
    """dnsperf with connections that stay open from one turn to the next.

    It is stopped between turns, so that all turns begin alike: dnsperf and the server fall into a
    rhythm, which decides how many queries come at once.
    """

    def __init__(self, command: list[str], bed: Bed) -> None:
        self._bed = bed
        self._command = command

    def __enter__(self) -> Kept:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(OPENING_S)
        self._signal(signal.SIGSTOP)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._signal(signal.SIGINT)
        self._signal(signal.SIGCONT)
        out, err = self._process.communicate(timeout=GRACE_S)
        if kind is None and "Queries lost:         0 " not in out:
            raise LabError(f"dnsperf: {err.strip() or out.strip()}")

    @contextlib.contextmanager
    def going(self) -> Iterator[None]:
        """Lets queries come while the block lasts."""
        self._signal(signal.SIGCONT)
        try:
            time.sleep(WARM_S)
            yield
        finally:
            self._signal(signal.SIGSTOP)
            self._drained()

    def queries(self, seconds: float) -> int:
        """The number of queries in this time, from the octets and frames that the link counts."""
        before = self._counted()
        time.sleep(seconds)
        octets, frames = (now - then for now, then in zip(self._counted(), before, strict=True))
        if not frames:
            raise LabError("no query came; hint: does another program have the cores to itself?")
        return queries_of(octets, frames)

    def _counted(self) -> tuple[int, int]:
        words = _device(self._bed)
        return int(words[0]), int(words[1])

    def _drained(self) -> None:
        """Waits until the server has answered all queries that are under way."""
        before = (-1, -1)
        while (now := self._counted()) != before:
            before = now
            time.sleep(QUIET_S)

    def _signal(self, which: signal.Signals) -> None:
        if self._process.poll() is not None:
            raise LabError(f"dnsperf ended early: {self._process.communicate()[1].strip()}")
        self._process.send_signal(which)


def queries_of(octets: int, frames: int) -> int:
    """The number of queries in these frames of a link: each frame has headers, and then queries."""
    return round((octets - HEADERS * frames) / QUERY)


OPENING_S = 0.5
WARM_S = 0.15
QUIET_S = 0.02
GRACE_S = 60.0

HEADERS = 20 + 32
"""IPv4 and TCP with timestamps. The link's octets have no Ethernet header."""

QUERY = 2 + 12 + 22 + 4
"""Its length, the DNS header, a name as `servers.NAMES` has them, type and class (RFC 1035)."""
