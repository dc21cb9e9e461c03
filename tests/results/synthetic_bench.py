"""A row of the gateway bench's intervals, for tests of the code that reads them."""

from __future__ import annotations

from typing import Any


def interval(server: str, transport: str, rate: float, round: int, **more: Any) -> dict[str, Any]:
    """An interval of 10 s in which every query was answered, at 10 us of each part a query.

    Every query takes two packets.
    """
    queries = int(10 * rate)
    each = queries * 10e-6
    return {
        "server": server,
        "transport": transport,
        "rate_per_s": rate,
        "round": round,
        "started_s": 0.0,
        "length_s": 10.0,
        "kernel_s": each,
        "server_s": each,
        "gateway_s": 0.0,
        "kernel_schedstat_s": 0.0,
        "server_schedstat_s": 0.0,
        "gateway_schedstat_s": 0.0,
        "others_s": 0.0,
        "generator_s": 1.0,
        "offered": queries,
        "answered": queries,
        "answered_in_time": queries,
        "lost": 0,
        "failed": 0,
        "unsent": 0,
        "packets": 2 * queries,
        "p50_us": 100.0,
        "p90_us": 150.0,
        "p99_us": 200.0,
        "max_us": 300.0,
        **more,
    }
