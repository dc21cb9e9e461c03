"""The server's processor time per answer, as `make bench-gateway` measured it.

The results that come with narrows cover BIND, NSD and Knot over UDP, over the kernel's TCP and
behind the gateway, at 5000 queries a second, each query on its own connection. They do not cover
persistent connections, TLS, HTTPS or QUIC, so cells with these have no processor time.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from functools import cache

from narrows.reproduce.hayes_2010.measure import BENCH
from narrows.results.gateway_bench import GatewayBench
from narrows.study.dns_transport.factors import transport

RATE = 5000.0
"""The rate in queries per second at which the server's time was measured."""

SERVERS = ("bind", "nsd", "knot")


@cache
def _bench() -> GatewayBench:
    return GatewayBench.load(BENCH)


@cache
def _us_per_query(server: str, arm: str) -> float:
    return statistics.median(_bench().us_per_query(server, arm, RATE))


def per_answer(name: str, metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """Microseconds of processor time per answered query, by server.

    Every query that reached the server counts, whether or not its answer arrived.
    """
    arms = transport(name).bench
    carried = {
        key.removesuffix("_per_answer"): value
        for key, value in metrics.items()
        if key.endswith("_per_answer") and key not in ("packets_per_answer", "bytes_per_answer")
    }
    if not arms or not carried or not carried.keys() <= arms.keys() or None in carried.values():
        return {f"cpu_{server}_us": None for server in SERVERS}
    return {
        f"cpu_{server}_us": sum(
            (value or 0.0) * _us_per_query(server, arms[over]) for over, value in carried.items()
        )
        for server in SERVERS
    }


def source() -> str:
    """Where the metrics come from, in words."""
    host = _bench().host
    named = (re.sub(r" <id:[^>]*>", "", each) for each in host.get("servers", {}).values())
    return (
        f"Processor time: make bench-gateway at {RATE:.0f} queries a second, each on a connection "
        f"of its own, on {host.get('processor', '?')} with Linux {host.get('kernel', '?')} "
        f"({', '.join(named)}), kernel and server together, median of "
        f"{_bench().settings.get('rounds', '?')} rounds. Persistent connections, TLS, HTTPS and "
        "QUIC were not measured, so their cells have none. Long replies were not measured either."
    )
