"""Senders whose own link is the bottleneck, where Linux's TCP keeps the queue small.

`tcp_small_queue_check` (net/ipv4/tcp_output.c, Linux 6.1) limits a connection to two segments in
its host's queues and devices, or to the bytes that it sends in a millisecond. The simulator's hosts
have no such limit. With eight CUBIC downloads through CoDel at 20 Mbit/s, the backlog is 17.8 kB on
the kernel and 21.6 kB in the simulator if the senders are at the bottleneck. It is 21.7 and 21.4 kB
if they are one router away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Plan = Mapping[str, Any]


def small_queues(plan: Plan) -> Iterator[str]:
    """A sentence for each group with a sender whose own link is the slowest on its path.

    Args:
        plan: The plan to run. Only groups whose connections send data in one direction count
            (`bulk`, `once`, `on-off`, `ftp`).
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
            send = "sends" if len(hosts) == 1 else "send"
            yield (
                f"{application['name']}: {', '.join(sorted(hosts))} {send} directly into the "
                "slowest link, where Linux keeps TCP's queue small but the simulator does not; "
                "hint: to compare the two, put a router between the sender and that link"
            )


def _slow_at_its_start(plan: Plan, links: list[int]) -> bool:
    rates = [int(plan["links"][link]["rate"]) for link in links]
    return bool(rates) and rates[0] == min(rates)
