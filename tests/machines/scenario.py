"""A scenario for four machines: downloads and DNS through a router."""

from __future__ import annotations

from narrows import Scenario

SCENARIO = """
name = "lab"
duration = "60 s"
end = "dns"
nodes = { hosts = ["server", "client", "stubs"], routers = ["router"] }

[[links]]
name = "wan"
between = ["server", "router"]
rate = "1 Gbit/s"

[[links]]
name = "access"
between = ["router", "client"]
rate = "20 Mbit/s"
forward = { queue = { kind = "bfifo", limit = "60 kB" } }

[[links]]
name = "lan"
between = ["router", "stubs"]
rate = "1 Gbit/s"

[[traffic]]
kind = "bulk"
name = "downloads"
sender = "server"
receiver = "client"
connections = 4
opener = "receiver"
start = "1 s"
spread = "0.5 s"

[[traffic]]
kind = "bulk"
name = "upload"
sender = "client"
receiver = "server"
start = "1 s"

[[dns]]
name = "stubs"
client = "stubs"
server = "server"
workers = 5
queries = 8
transport = { kind = "udp", retry = "windows" }
start = "3 s"
service = "0.5 ms"

[monitor]
queues = { links = ["access.forward"], rate = 10 }
links = { links = ["access.forward"], rate = 10 }
"""


def lab(**settings: object) -> Scenario:
    """The scenario; keys have `__` for a dot."""
    return Scenario.parse(
        SCENARIO, set={key.replace("__", "."): str(value) for key, value in settings.items()}
    )
