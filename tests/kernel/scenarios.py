"""Small scenarios for the kernel."""

from __future__ import annotations

from typing import Any

from narrows import Scenario

DUMBBELL = """
name = "dumbbell"
duration = "30 s"
end = "dns"
nodes = { hosts = ["far", "resolver", "near", "stubs"], routers = ["isp", "cpe"] }

[[links]]
name = "bottleneck"
between = ["isp", "cpe"]
rate = "10 Mbit/s"
delay = "5 ms"
framing = "ethernet"
[links.forward]
queue = { kind = "bfifo", limit = "100 kB" }

[[links]]
name = "internet"
between = ["far", "isp"]
rate = "100 Mbit/s"
delay = "15 ms"

[[links]]
name = "server"
between = ["resolver", "isp"]
rate = "100 Mbit/s"
delay = "2 ms"

[[links]]
name = "lan"
between = ["cpe", "near"]
rate = "1 Gbit/s"

[[links]]
name = "wifi"
between = ["cpe", "stubs"]
rate = "1 Gbit/s"

[[traffic]]
kind = "bulk"
name = "downloads"
sender = "far"
receiver = "near"
connections = 10
opener = "receiver"
spread = "1 s"

[[dns]]
name = "stubs"
client = "stubs"
server = "resolver"
workers = 10
queries = 20
transport = { kind = "udp", retry = "windows" }
start = "4 s"
spread = "1 s"
service = "0.5 ms"
service_jitter_mean = "0.5 ms"

[monitor]
queues = { links = ["bottleneck.forward"], rate = 10 }
links = { links = ["bottleneck.forward"], rate = 2 }
"""


def dumbbell(**settings: Any) -> Scenario:
    """Ten downloads and ten resolver workers at 10 Mbit/s; keys have `__` for a dot."""
    return Scenario.parse(
        DUMBBELL, set={key.replace("__", "."): str(value) for key, value in settings.items()}
    )


AQM = """
name = "aqm"
duration = "30 s"

[[links]]
name = "bottleneck"
between = ["r1", "r2"]
rate = "10 Gbit/s"
framing = { overhead = "14 B", queue_overhead = "14 B" }
forward = { rate = "10 Mbit/s", queue = { kind = "pfifo", limit = 1000 } }

[[links]]
name = "d"
between = ["r2", "d"]
rate = "10 Gbit/s"

[[links]]
name = "s"
between = ["s", "r1"]
rate = "10 Gbit/s"
backward = { delay = "20 ms" }

[[traffic]]
kind = "bulk"
name = "flows"
sender = "s"
receiver = "d"
connections = 20
opener = "receiver"
start = "0.5 s"
spread = "1 s"
stagger = "random"

[monitor]
queues = { links = ["bottleneck.forward"], rate = 10 }
links = { links = ["bottleneck.forward"], rate = 10 }
"""


def aqm(queue: str, delay: str, connections: int) -> Scenario:
    """CUBIC downloads over 10 Mbit/s behind a queue, with the delay on the way of acknowledgements.

    It is the dumbbell on which docs/kernel-notes.md compares queue disciplines, without its probes.
    """
    return Scenario.parse(
        AQM,
        set={
            "links.bottleneck.forward.queue": queue,
            "links.s.backward.delay": delay,
            "traffic.flows.connections": str(connections),
        },
    )
