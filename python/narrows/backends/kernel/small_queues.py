"""Senders whose own link is the bottleneck: Linux's TCP keeps its own queue small there.

`tcp_small_queue_check` (net/ipv4/tcp_output.c, Linux 6.1) lets a connection have two segments in
its host's queues and devices, or as many as it sends in a millisecond. The simulator's hosts have
no such bound. With eight CUBIC downloads through CoDel at 20 Mbit/s, the kernel's backlog is 17.8
kB and the simulator's 21.6 kB if the senders are at the bottleneck, and 21.7 and 21.4 kB if they
are a router away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["small_queues"]

Plan = Mapping[str, Any]


def small_queues(plan: Plan) -> Iterator[str]:
    """A sentence for each group of which a sender's own link is its path's slowest.

    Args:
        plan: What would be run. Groups whose connections have their data in one direction are
            looked at (`bulk`, `once`, `on-off`, `ftp`).
    """
    for application in plan["applications"]:
        ((_, kind),) = application["kind"].items()
        connections = kind.get("connections") if isinstance(kind, Mapping) else None
        if not isinstance(connections, list):
            continue
        paths = {each["there"] for each in connections if isinstance(each, Mapping)}
        hosts = {
            plan["nodes"][plan["paths"][number]["from"]]
            for number in paths
            if _slow_at_its_start(plan, plan["paths"][number]["links"])
        }
        if hosts:
            yield (
                f"{application['name']}: {', '.join(sorted(hosts))} sends into the slowest link "
                "itself, where Linux keeps TCP's queue small and the simulator does not; "
                "put a router between them to compare the two"
            )


def _slow_at_its_start(plan: Plan, links: list[int]) -> bool:
    rates = [int(plan["links"][link]["rate"]) for link in links]
    return bool(rates) and rates[0] == min(rates)
