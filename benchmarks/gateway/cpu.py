"""Processor time of threads, two ways.

From switch to switch (switches.py), which is what counts here. And by schedstat
(/proc/PID/schedstat, Documentation/scheduler/sched-stats.rst, first field), which is recorded
beside it: it charges a thread from the moment at which another core woke it, as the scheduler's
clock is not read again when the thread is switched in (kernel/sched/core.c of Linux 6.18,
rq_clock_skip_update). The flight of the interrupt that tells its core, and the way out of idle, so
count as work of the thread: 8 us for each packet on a virtual machine where a packet takes 4 us.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.switches import Switches

PROC = Path("/proc")


def descendants(root: int) -> list[int]:
    """A process and all that came from it."""
    children: dict[int, list[int]] = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            after = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(after[1]), []).append(int(path.parent.name))
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += children.get(process, [])
    return found


class Meter:
    """Time of all threads of some processes, from when it was made."""

    def __init__(self, processes: Iterable[int], switches: Switches) -> None:
        self._processes = list(processes)
        self._switches = switches
        self._threads = threads(self._processes)
        switches.watch(self._threads)
        self._before = self._schedstat()

    def spent_s(self) -> float:
        """Seconds on a processor since, from switch to switch, of threads that were there then."""
        return sum(map(self._switches.spent_ns, self._threads)) / 1e9

    def schedstat_s(self) -> float:
        """Seconds since by schedstat."""
        now = self._schedstat()
        return sum(at - self._before.get(thread, at) for thread, at in now.items()) / 1e9

    def _schedstat(self) -> dict[int, int]:
        found = {}
        for thread in self._threads:
            # Also where the thread is not its process's first (proc(5)).
            with contextlib.suppress(OSError):
                found[thread] = int((PROC / str(thread) / "schedstat").read_text().split()[0])
        return found


def threads(processes: Iterable[int]) -> list[int]:
    """All threads of some processes."""
    found = []
    for process in processes:
        found += [int(path.name) for path in PROC.glob(f"{process}/task/[0-9]*")]
    return found


def core_busy_s(core: int) -> float:
    """Time that a core was not idle, in seconds, by the ticks of /proc/stat."""
    for line in (PROC / "stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            ticks = [int(field) for field in fields]
            idle = ticks[3] + ticks[4]
            return (sum(ticks[:8]) - idle) / 100.0
    raise ValueError(f"there is no core {core}")


def resident_bytes(processes: Iterable[int]) -> int:
    """Memory of these processes (Pss, proc_pid_smaps(5)), in bytes."""
    total = 0
    for process in processes:
        try:
            text = (PROC / str(process) / "smaps_rollup").read_text()
        except OSError:
            continue
        lines = dict(line.split(":", 1) for line in text.splitlines()[1:])
        total += int(lines["Pss"].split()[0]) * 1024
    return total
