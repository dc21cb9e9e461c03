"""A scenario that takes milliseconds, and sweeps of it."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

TEXT = """
name = "small"
duration = "2 s"

[[links]]
name = "bottleneck"
between = ["server", "client"]
rate = "2 Mbit/s"
delay = "10 ms"
queue = { kind = "bfifo", limit = "30000 B" }

[[traffic]]
kind = "on-off"
name = "web"
sender = "server"
receiver = "client"
connections = 3
burst = "20 kB"
idle_mean = "100 ms"

[monitor]
queues = { links = ["bottleneck.forward"], rate = 10 }
"""

SMALL: dict[str, Any] = tomllib.loads(TEXT)


@pytest.fixture
def small() -> dict[str, Any]:
    """The scenario's values."""
    return copy.deepcopy(SMALL)


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    """The scenario as a file."""
    path = tmp_path / "small.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path
