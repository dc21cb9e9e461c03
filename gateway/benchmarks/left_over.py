"""Ends and removes what a killed bench left."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .front import PINS
from .lab import run

FOLDER = "bench-gateway-"
"""The beginning of temporary folders' names; the process number follows."""


def remove(processes: Iterable[int]) -> None:
    """Removes the namespaces, processes and files of benches whose process no longer exists."""
    for process in processes:
        if Path(f"/proc/{process}").exists():
            continue
        for line in run("ip", "netns", "list").splitlines():
            name = line.split()[0]
            if not name.startswith(f"nrw-bench-{process}-"):
                continue
            for inside in run("ip", "netns", "pids", name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(inside), signal.SIGKILL)
            run("ip", "netns", "del", name, check=False)
        folders = [*PINS.glob(f"b{process}s*@*"), *PINS.parent.glob(f"{FOLDER}{process}")]
        folders += Path(tempfile.gettempdir()).glob(f"{FOLDER}{process}-*")
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
