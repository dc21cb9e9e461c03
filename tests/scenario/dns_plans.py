"""Plans of a DNS group, for tests of its keys."""

from __future__ import annotations

from typing import Any

from narrows import Scenario

TEXT = """
name = "small"
duration = "60 s"
end = "dns"

[[links]]
name = "wan"
between = ["client", "server"]
rate = "100 Mbit/s"
delay = "20 ms"

[[dns]]
name = "stubs"
client = "client"
server = "server"
queries = 5
"""

S = 10**12


def plan(*lines: str) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Client, server and TCP settings of a scenario with more keys for its DNS group."""
    lowered = Scenario.parse(TEXT + "\n".join(lines)).plan()
    client, server = (application["kind"] for application in lowered["applications"])
    return client["dns-client"], server["dns-server"], lowered["tcp"]
