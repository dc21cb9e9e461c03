"""What the tests of one's own queues and congestion controls share."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from narrows.queues import INCLUDE

EXAMPLES = Path(__file__).parents[2] / "crates" / "plugin" / "examples"


def interrupt_soon() -> None:
    """Ctrl-C in a fifth of a second, for code that will block by then."""
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def scenario(tcp: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Four uploads over 10 Mbit/s and a pfifo of 20 packets."""
    return {
        "name": "mine",
        "duration": "20 s",
        "links": [
            {
                "name": "wan",
                "between": ["a", "b"],
                "rate": "10 Mbit/s",
                "delay": "10 ms",
                "queue": {"kind": "pfifo", "limit": 20},
            }
        ],
        "traffic": [
            {
                "kind": "bulk",
                "name": "up",
                "sender": "a",
                "receiver": "b",
                "connections": 4,
                "tcp": {"ecn": True, **(tcp or {})},
            }
        ],
        **more,
    }


def compiled(name: str, folder: Path) -> Path:
    """An example in C, as a shared object."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler cc")
    made = folder / f"{Path(name).name}.so"
    source = EXAMPLES / f"{name}.c"
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", str(source), "-o", str(made), "-lm"]
    subprocess.run(command, check=True)
    return made
