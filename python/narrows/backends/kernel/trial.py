"""Boots a guest kernel for a moment, to find out whether it runs on this machine.

A guest may fail even though its program exists. For example, unmodified Linux 6.1 does not run on
processors with AMX: its first process dies (guest.toml says why).
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path

BOOT_S = 30.0
"""Seconds after which a guest that has not ended counts as hung; it usually takes one or two."""

_DONE = "exitcode=0x00000000"
"""What the kernel prints when its first process succeeds: it panics, as it needs that process."""


def why_not(kernel: Path, *, virtual: bool) -> str:
    """Why a guest kernel does not run here; empty if it does.

    Args:
        kernel: The guest's program.
        virtual: Whether it runs in virtual time.
    """
    try:
        return _boot(kernel, kernel.stat().st_mtime_ns, virtual)
    except OSError as error:
        return (error.strerror or str(error)).lower()


@functools.cache
def _boot(kernel: Path, _changed_ns: int, virtual: bool) -> str:
    # The kernel splits its command line at spaces, which TMPDIR may contain.
    with tempfile.TemporaryDirectory(prefix="narrows-trial-", dir="/tmp") as folder:
        command = [
            str(kernel),
            "mem=64M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "con=null",
            "con0=null,fd:1",
            "con1=null",
            f"uml_dir={folder}",
            "umid=trial",
            *(["time-travel=inf-cpu"] if virtual else []),
            f"init={os.path.realpath('/bin/true')}",
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=BOOT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it does not boot within {BOOT_S:g} s"
    said = done.stdout.decode(errors="replace")
    if _DONE in said:
        return ""
    found = re.search(r"Kernel panic - not syncing: (.+)", said)
    last = found[1] if found else (said.strip().splitlines() or ["it printed nothing"])[-1]
    return f"it does not run on this machine: {last.strip()[:120]}"
