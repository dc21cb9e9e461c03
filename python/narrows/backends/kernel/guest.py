"""Starts the agent, in a guest or on the host, and waits for its results.

A guest is a User-Mode Linux kernel: a program like any other, which needs no special rights. The
host's files are its root, read-only (hostfs), and it can write only to the run's folder.
"""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from narrows.backends.backend import BackendError
from narrows.backends.interrupts import Held
from narrows.backends.kernel.available import Kernel
from narrows.backends.kernel.live import ROOM_HINT
from narrows.backends.kernel.workspace import Workspace

BOOT_S = 60.0
"""Seconds that a guest may take to start the agent; it usually takes one."""

BUILD_S = 300.0
"""Seconds that the agent may take to build the network."""

END_S = 120.0
"""Seconds that an agent may take to write its rows after it is told to stop."""

MODULES = ("drivers/net/veth", "net/sched/sch_*", "net/sched/cls_*", "net/sched/act_mirred")

_LIVE_MB = 640
_LOOK_S = 0.05
_INSIDE = Path(__file__).parent / "inside"
_IN_GUEST = "/run/narrows"


def conduct(
    kernel: Kernel,
    job: Mapping[str, Any],
    place: Workspace,
    *,
    core: int | None = None,
    progress: Callable[[float], object] | None,
    interrupts: Held,
) -> dict[str, Any]:
    """Does a job, and returns the agent's final report.

    An interrupt ends it early; `stopped` in the report is then `interrupted`.

    Args:
        kernel: The kernel that runs it.
        job: The agent's job.
        place: The run's folder.
        core: The number of the core on which the guest runs; None for all cores.
        progress: Called with the completed share of the run, from 0 to 1.
        interrupts: Interrupts that have arrived, such as Ctrl-C.

    Raises:
        BackendError: The guest does not boot, or the kernel refuses a part of the network.
    """
    folder = place.folder
    _look_for_room(kernel, job)
    try:
        (folder / "job.json").write_text(json.dumps({**job, "modules": _modules(kernel)}))
        with (folder / "console.txt").open("wb") as console, _on(core):
            path = f"/usr/sbin:/sbin:{os.environ.get('PATH', '')}"
            process = place.start(_command(kernel, job, folder), output=console, path=path)
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise BackendError(error.filename or folder, what, ROOM_HINT) from None
    try:
        _wait(process, kernel, job, folder, progress, interrupts)
    finally:
        _end(process)
    done = folder / "done.json"
    if done.exists():
        found: dict[str, Any] = json.loads(done.read_text())
        return found
    raise BackendError("", _why(folder, kernel), kernel.hint)


@contextlib.contextmanager
def _on(core: int | None) -> Iterator[None]:
    """Keeps programs started in the block on one core.

    A guest kernel stops and continues its programs (ptrace) all the time, and only one of them runs
    at a time. On two cores, each switch wakes the other core, and the guest takes twice as long.
    """
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _look_for_room(kernel: Kernel, job: Mapping[str, Any]) -> None:
    """Checks that the disk has room for a guest's memory, which is a file.

    Raises:
        BackendError: There is not enough room.
    """
    if kernel.program is None:
        return
    # The order is that of `choose_tempdir` (arch/um/os-Linux/mem.c).
    place = tempfile.gettempdir() if "TMPDIR" in os.environ else "/dev/shm"
    if not Path(place).is_dir():
        place = tempfile.gettempdir()
    free, needed = _room_mb(place), _memory_mb(job)
    if free < needed:
        raise BackendError(
            place,
            f"{free} MB are free, but the guest's memory needs {needed} MB",
            ROOM_HINT,
        )


def _room_mb(place: str) -> int:
    return shutil.disk_usage(place).free >> 20


def _command(kernel: Kernel, job: Mapping[str, Any], folder: Path) -> list[str]:
    python = os.path.realpath(sys.executable)
    # A guest cannot keep what it compiles, because the host's files are read-only there.
    compileall.compile_dir(_INSIDE, quiet=2)
    # The kernel splits its command line at spaces, so no path may contain one.
    (folder / "inside").symlink_to(_INSIDE)
    start = f"__import__('sys').path.append('{folder}/inside');__import__('agent.main').main.main()"
    if kernel.program is None:
        return [python, "-I", "-S", "-c", start, str(folder)]
    return [
        str(kernel.program),
        f"mem={_memory_mb(job)}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "quiet",
        "con=null",
        "con0=null,fd:1",
        "con1=null",
        f"uml_dir={folder}",
        "umid=guest",
        *(["time-travel=inf-cpu"] if kernel.virtual else []),
        *kernel.arguments,
        f"init={python}",
        "--",
        *("-I", "-S", "-c", start, _IN_GUEST, "guest", str(folder)),
    ]


def _modules(kernel: Kernel) -> list[str]:
    """Modules of the guest kernel that a network needs; none if everything is built in."""
    if kernel.program is None or kernel.virtual:
        return []
    places = sorted(kernel.program.parent.parent.glob("lib/uml/modules/*/kernel"))
    return [
        str(found)
        for name in MODULES
        for place in places[-1:]
        for found in sorted(place.glob(f"{name}.ko"))
    ]


def _memory_mb(job: Mapping[str, Any]) -> int:
    return _LIVE_MB + len(job["namespaces"])


def _wait(
    process: subprocess.Popen[bytes],
    kernel: Kernel,
    job: Mapping[str, Any],
    folder: Path,
    progress: Callable[[float], object] | None,
    interrupts: Held,
) -> None:
    started = time.monotonic()
    stopping: float | None = None
    while process.poll() is None:
        time.sleep(_LOOK_S)
        now = time.monotonic()
        if interrupts.take() and stopping is None:
            stopping = now
            (folder / "stop").write_text("")
        if stopping is not None and now - stopping > END_S:
            return
        if kernel.program is not None and not (folder / "booted").exists():
            if now - started > BOOT_S:
                raise BackendError(
                    "",
                    f"the guest kernel did not boot within {BOOT_S:g} s ({_last_words(folder)})",
                    "narrows kernel check lists the other kernels",
                )
        elif not (folder / "built").exists() and now - started > BOOT_S + BUILD_S:
            raise BackendError(
                "", f"the network was not ready within {BUILD_S:g} s", "leave out some links"
            )
        if progress is not None:
            progress(_share(folder, job))
    if progress is not None:
        progress(1.0)


def _share(folder: Path, job: Mapping[str, Any]) -> float:
    try:
        return min(
            1.0, max(0.0, float((folder / "progress").read_text()) / float(job["duration_s"]))
        )
    except (OSError, ValueError):
        return 0.0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the rest of the process group, because a guest's helpers outlive it."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _why(folder: Path, kernel: Kernel) -> str:
    failed = folder / "failed.txt"
    if failed.exists():
        return " ".join(failed.read_text().split())
    return f"{kernel.title} ended early ({_last_words(folder)})"


def _last_words(folder: Path) -> str:
    try:
        lines = (folder / "console.txt").read_text(errors="replace").split("\n")
    except OSError:
        return "it printed nothing"
    said = [" ".join(line.split()) for line in lines if line.strip()]
    return said[-1][:200] if said else "it printed nothing"
