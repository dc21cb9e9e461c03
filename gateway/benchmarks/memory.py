"""The memory of an open connection: in the kernel's slabs, in the server, in the gateway's maps.

Both ends of a connection are on this machine. Objects that each end has are counted half; the
clients hold nothing else.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from .beds import Arm, Bed
from .cpu import resident_bytes
from .lab import run
from .load import Generator, finish
from .recording import Recording

SHARED = ("TCP", "TCPv6", "sock_inode_cache", "filp", "dentry", "eventpoll_epi")
"""Slabs that hold an object for either end."""

SAMPLES_S = 0.02
"""The time between two samples of the number of open connections."""


def measure(
    bed: Bed, arm: Arm, generator: Generator, recording: Recording, count: int, rounds: int
) -> None:
    """Memory for each of `count` connections, idle and after a query."""
    for number in range(1, rounds + 1):
        for kind in ("idle", "asked"):
            slabs, server = _slabs(), resident_bytes(bed.server.processes)
            with generator.held(bed.link, count, asked=kind == "asked") as found:
                opened = max(1, found["open"])
                each = (_slabs() - slabs) / 2 / opened
                grown = (resident_bytes(bed.server.processes) - server) / opened
                if bed.gateway is not None:
                    _entries(bed, arm, number, kind, opened, recording)
                else:
                    recording.memory(arm, number, kind, "kernel", opened, each)
            recording.memory(arm, number, kind, "server", opened, grown)
            time.sleep(0.3)


def _entries(bed: Bed, arm: Arm, number: int, kind: str, opened: int, recording: Recording) -> None:
    """The gateway's memory: entries with their keys, and the map's overhead for each."""
    assert bed.gateway is not None, "the caller looked"
    pinned = str(bed.gateway.pins / "flows")
    flows = json.loads(run("bpftool", "-j", "map", "show", "pinned", pinned))
    held = bed.gateway.entries() / opened
    size = flows["bytes_key"] + flows["bytes_value"]
    recording.memory(arm, number, kind, "entry", opened, held * size)
    place = flows["bytes_memlock"] / flows["max_entries"]
    recording.memory(arm, number, kind, "gateway", opened, held * place)


def sessions(
    bed: Bed,
    arm: Arm,
    generator: Generator,
    recording: Recording,
    *,
    rate: float,
    seconds: float,
    rounds: int,
) -> None:
    """Samples for how many connections there is state, under a load."""
    for number in range(1, rounds + 1):
        idle = _held(bed)
        load = generator.start(bed.link, "tcp", rate=rate, seconds=seconds, seed=number)
        started_at = time.monotonic()
        while load.poll() is None:
            count = max(0, _held(bed) - idle)
            recording.session(arm, rate, number, time.monotonic() - started_at, count)
            time.sleep(SAMPLES_S)
        finish(load)


def _held(bed: Bed) -> int:
    """The number of the gateway's entries, or of all TCP sockets in the server's namespace."""
    if bed.gateway is not None:
        return bed.gateway.entries()
    text = Path(f"/proc/{bed.server.process.pid}/net/sockstat").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("TCP:"))
    words = line.split()
    return int(words[words.index("inuse") + 1]) + int(words[words.index("tw") + 1])


def _slabs() -> int:
    """Bytes of the used objects in the slabs that both ends have."""
    total = 0
    for line in Path("/proc/slabinfo").read_text().splitlines()[2:]:
        name, active, _, size, *_ = line.split()
        if name in SHARED:
            total += int(active) * int(size)
    return total
