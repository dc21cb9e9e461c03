"""Gives measured threads priority on their core, so that a busy machine disturbs them less.

Servers and generator get the lowest real-time priority (SCHED_FIFO, sched(7)). The threads in which
interfaces receive get the priority above it, because they do the work of softirqs, which run before
processes. On an idle machine this changes little. On a busy one, an arriving packet would otherwise
wait for some milliseconds, until another program's time slice is over. The server would then
process many packets at once, which looks cheap.
"""

from __future__ import annotations

import os

PROCESS = 1
RECEIVER = 2
"""Priorities."""


def run_first(thread: int, priority: int) -> None:
    """Sets a thread's priority, which its children inherit."""
    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))
