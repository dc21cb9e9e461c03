"""Processor time of threads, as the scheduler counts it, in nanoseconds.

Source: /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), first field: time
spent on a processor. It is exact, where the ticks of /proc/PID/stat are samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

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

    def __init__(self, processes: Iterable[int]) -> None:
        self._processes = list(processes)
        self._before = self._read()

    def spent_s(self) -> float:
        """Seconds since; a thread that ended meanwhile is not in it."""
        now = self._read()
        return sum(at - self._before.get(thread, 0) for thread, at in now.items()) / 1e9

    def _read(self) -> dict[str, int]:
        found = {}
        for process in self._processes:
            for path in PROC.glob(f"{process}/task/*/schedstat"):
                try:
                    found[path.parent.name] = int(path.read_text().split()[0])
                except OSError:
                    continue
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
