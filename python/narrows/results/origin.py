"""The origin of a run in words: simulated, run on a kernel, or measured on a machine.

It is derived from `backend` in run.json.
"""

from __future__ import annotations

MONITOR = "monitor"
"""`narrows monitor`: no scenario and no seed, only a machine that was watched."""
MACHINES = "machines"
"""A scenario on several machines (docs/machines.md)."""
FLENT = "flent"
"""`narrows import flent`: what Flent measured, with no scenario and no seed of ours."""
MEASURED = (MONITOR, FLENT)
"""Origins of runs without a scenario that could be run again, and without a seed."""


def length(backend: str, end_s: float) -> str:
    """The length of a run in words.

    Examples:
        >>> length("sim", 60.0), length("kernel", 60.0), length("monitor", 4.0)
        ('60 s simulated', '60 s on a Linux kernel', '4 s measured')
    """
    if backend in (*MEASURED, MACHINES):
        return f"{end_s:.4g} s measured"
    if is_kernel(backend):
        return f"{end_s:.4g} s on a Linux kernel"
    return f"{end_s:.4g} s simulated"


def is_kernel(backend: str) -> bool:
    """Whether the backend is a Linux kernel: `kernel`, or a named one, such as `kernel-virtual`."""
    return backend.partition("-")[0] == "kernel"
