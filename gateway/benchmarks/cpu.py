"""Processor time of threads, measured in two ways.

The first is from switch to switch (switches.py), and this one counts here. The second is schedstat
(/proc/PID/schedstat, Documentation/scheduler/sched-stats.rst, first field), which is recorded as
well. Schedstat charges a thread from the moment when another core woke it, because the scheduler
does not read its clock again when it switches the thread in (kernel/sched/core.c of Linux 6.18,
rq_clock_skip_update). The delivery of the interrupt to the thread's core and the core's way out of
idle then count as the thread's work: 8 us for each packet on a virtual machine where a packet takes
4 us.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .switches import Switches

PROC = Path("/proc")


def descendants(root: int) -> list[int]:
    """A process and all its descendants."""
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
    """The processor time of all threads of some processes, since the meter was made."""

    def __init__(self, processes: Iterable[int], switches: Switches) -> None:
        self._processes = list(processes)
        self._switches = switches
        self._threads = threads(self._processes)
        switches.watch(self._threads)
        self._before = self._schedstat()

    def spent_s(self) -> float:
        """Seconds on a processor since then, from switch to switch, of the threads of that time."""
        return sum(map(self._switches.spent_ns, self._threads)) / 1e9

    def schedstat_s(self) -> float:
        """The same seconds by schedstat."""
        now = self._schedstat()
        return sum(at - self._before.get(thread, at) for thread, at in now.items()) / 1e9

    def _schedstat(self) -> dict[int, int]:
        found = {}
        for thread in self._threads:
            # This also works for threads that are not their process's first (proc(5)).
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
