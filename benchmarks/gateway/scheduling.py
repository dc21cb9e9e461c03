"""Lets what is measured run before all else on its core, so that a busy machine disturbs it less.

Three things: the best nice value for the thread, and for its session where sessions are scheduled
as groups (autogroup, sched(7)); and the shortest slice that the scheduler takes. Linux's scheduler
(EEVDF, since 6.6) lets a task that wakes wait until the running one's slice is over, 2.8 ms as a
rule, unless the waking one's own slice is shorter. On an idle machine none of this changes
anything.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from pathlib import Path

SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Number of the system call sched_setattr(2), which the C library does not wrap."""

NICE = -20
SLICE_NS = 100_000
"""The shortest that is accepted (kernel/sched/syscalls.c of Linux 6.18)."""


def own_session() -> None:
    """Makes the caller, and what it starts, a session of its own that runs before others."""
    if os.getsid(0) != os.getpid():
        with contextlib.suppress(OSError):
            # Refused where it leads its group: then the session is what the shell gave.
            os.setsid()
    prefer_session(os.getpid())


def prefer_session(process: int) -> None:
    """Gives a process's session the best nice value."""
    path = Path(f"/proc/{process}/autogroup")
    if path.exists():
        path.write_text(str(NICE))


def run_first(thread: int = 0) -> None:
    """Sets nice value and slice of a thread; what it starts has the same. 0: the caller."""
    # struct sched_attr, version 0: size, policy, flags, nice, priority, runtime (which is the
    # slice), deadline, period.
    attributes = struct.pack("=IIQiIQQQ", 48, 0, 0, NICE, 0, SLICE_NS, 0, 0)
    number = SCHED_SETATTR.get(os.uname().machine)
    if number is None:
        os.setpriority(os.PRIO_PROCESS, thread, NICE)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, thread, attributes, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
