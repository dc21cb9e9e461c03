"""The command line as users see it: in a separate process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Narrows = Callable[..., subprocess.CompletedProcess[str]]

SMALL = """
name = "small"
duration = "3 s"

[[links]]
name = "bottleneck"
between = ["server", "client"]
rate = "2 Mbit/s"
delay = "10 ms"
queue = { kind = "bfifo", limit = "30000 B" }

[[traffic]]
kind = "bulk"
name = "background"
sender = "server"
receiver = "client"
connections = 2

[[dns]]
name = "dns"
client = "client"
server = "server"
workers = 2
queries = 3
start = "1 s"

[monitor]
queues = { links = ["bottleneck.forward"], rate = 10 }
links = { links = ["bottleneck.forward"], rate = 2 }
"""


@pytest.fixture
def narrows(tmp_path: Path) -> Narrows:
    """Runs `narrows ARGUMENTS` in an empty folder, without a terminal."""

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "narrows", *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario file that runs in a blink."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path
