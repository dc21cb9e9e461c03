"""A small scenario in which most things happen."""

from __future__ import annotations

from pathlib import Path

import pytest

SCENARIO = """
name = "small"
seed = 3
duration = "20 s"

[[links]]
name = "bottleneck"
between = ["R1", "R2"]
rate = "5 Mbit/s"
delay = "10 ms"
framing = "ethernet"
ring = { packets = 8 }
jitter = { deviation = "2 ms", correlation = 0.25 }
loss = 0.001

[links.queue]
kind = "red"
min = "15 kB"
max = "45 kB"
limit = "90 kB"
avpkt = "1400 B"
burst = 18
probability = 0.1
ecn = true

[[links]]
name = "left"
between = ["server", "R1"]
rate = "100 Mbit/s"

[[links]]
name = "right"
between = ["R2", "client"]
rate = "100 Mbit/s"

[[traffic]]
kind = "bulk"
name = "downloads"
sender = "server"
receiver = "client"
connections = 6
ecn_share = 0.5
opener = "receiver"
spread = "1 s"
stagger = "random"

[[traffic]]
kind = "on-off"
name = "pages"
sender = "server"
receiver = "client"
connections = 4
burst = "60 kB"
idle_mean = "1 s"

[[dns]]
name = "stubs"
client = "client"
server = "server"
workers = 10
warm_up = 2
queries = 20
transport = { kind = "udp", retry = "windows" }
start = "2 s"
query_size = "80 B"
reply_size = "150 B"

[monitor]
queues = { links = ["bottleneck.forward"], rate = 10 }
links = { links = ["bottleneck.forward"], rate = 2 }
capture = ["bottleneck.forward", "bottleneck.backward"]
"""


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """The scenario in a file of its own."""
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path
