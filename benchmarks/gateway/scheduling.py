"""Lets what is measured run before all else on its core, so that a busy machine disturbs it less.

Servers and generator get the lowest real-time priority (SCHED_FIFO, sched(7)), and the threads in
which interfaces receive the one above it: as softirqs, whose work these threads do, run before
processes. On an idle machine this changes little; on a busy one a packet that arrives otherwise
waits until the slice of some other program is over, which takes milliseconds, and what then is done
at once for many packets looks cheap.
"""

from __future__ import annotations

import os
from pathlib import Path

PROCESS = 1
RECEIVER = 2
"""Priorities."""


def run_first(thread: int, priority: int) -> None:
    """Sets a thread's priority; what it starts has the same."""
    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))


def all_first(process: int, priority: int) -> None:
    """The same for all threads of a process."""
    for path in Path(f"/proc/{process}/task").iterdir():
        run_first(int(path.name), priority)
