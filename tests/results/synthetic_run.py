"""A run without a simulator: crude, but with the shape of the paper's test bed.

A fluid of many AIMD flows fills a RED or FIFO queue before a 10 Mbit/s link; DNS workers ask
through it from second 40 on. Numbers come from a seeded generator, so equal seeds give equal runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from narrows.results import Run

LINK = "bottleneck.forward"
RATE = 10e6
TIMEOUTS = (1.0, 2.0, 2.0, 4.0, 8.0)
DNS_START_S = 40.0


def synthetic_run(
    *,
    kind: str = "red",
    seed: int = 1,
    duration_s: float = 120.0,
    loss: float = 0.09,
    workers: int = 40,
    partial: bool = False,
    **facts: Any,
) -> Run:
    rng = np.random.default_rng([seed, len(kind)])
    queues, links, end_s = _queue(kind, rng, duration_s, loss)
    queries, attempts = _dns(rng, loss, workers, end_s, partial)
    flows = _flows(rng, end_s)
    columns = {
        "flows": flows,
        "bursts": _bursts(rng),
        "queries": queries,
        "attempts": attempts,
        "queues": queues,
        "links": links,
        "goodput": _goodput(flows, end_s),
    }
    defaults: dict[str, Any] = {
        "scenario": scenario(kind, seed),
        "seed": seed,
        "backend": "sim",
        "status": "partial" if partial else "complete",
        "stopped": "interrupted" if partial else "end",
        "end_s": end_s,
        "events": 123_456,
        "narrows": "0.1.0",
        "wall": {"started": "2026-01-01T00:00:00Z", "duration_s": 1.25},
        "host": {"system": "Linux", "machine": "x86_64"},
    }
    return Run.from_columns(columns, **{**defaults, **facts})


def scenario(kind: str, seed: int) -> dict[str, Any]:
    queue = {
        "red": {
            "kind": "red",
            "limit": "375000 B",
            "min": "74874 B",
            "max": "262374 B",
            "avpkt": "1400 B",
            "burst": 98,
            "probability": 0.1,
            "ecn": False,
        },
        "bfifo": {"kind": "bfifo", "limit": "262500 B"},
        "pfifo": {"kind": "pfifo", "limit": 180},
    }[kind]
    return {
        "name": f"testbed-{kind}",
        "description": "120 CUBIC connections and DNS workers share a 10 Mbit/s bottleneck",
        "seed": seed,
        "duration": "120 s",
        "links": [
            {
                "name": "bottleneck",
                "between": ["BN2", "BN1"],
                "rate": "10 Mbit/s",
                "delay": "0.01 ms",
                "ring": {"bytes": "112626 B"},
                "forward": {"queue": queue},
            }
        ],
        "traffic": [{"kind": "bulk", "name": "background", "connections": 120}],
        "dns": [
            {
                "name": "dns",
                "client": "dnsclient",
                "server": "dnsserver",
                "workers": 40,
                "warm_up": 20,
                "queries": 40,
                "transport": {"kind": "udp", "retry": "windows"},
                "start": "40 s",
            }
        ],
    }


def _queue(kind: str, rng: Any, duration_s: float, loss: float) -> tuple[Any, Any, float]:
    step = 0.1
    count = int(duration_s / step)
    t = step * np.arange(1, count + 1)
    limit = {"red": 375_000.0, "bfifo": 262_500.0, "pfifo": 270_000.0}[kind]
    top = 190_000.0 if kind == "red" else limit
    backlog = np.zeros(count)
    average = np.zeros(count)
    window, level, mean = 0.15, 0.0, 0.0
    early = np.zeros(count)
    overflow = np.zeros(count)
    for i in range(count):
        dns = 1.3 if t[i] >= DNS_START_S else 1.0
        level = max(0.0, level + (window - 0.5) * 40_000.0 + rng.normal(0.0, 4_000.0))
        window = min(1.0, window + 0.05)
        mean += 0.08 * (level - mean)
        if kind == "red":
            probability = np.clip((mean - 74_874.0) / 187_500.0, 0.0, 1.0) * 0.1
            early[i] = rng.poisson(90.0 * probability * dns)
            if early[i] > 5 or level > top:
                window = max(0.15, window - 0.04 * early[i])
        if level > limit:
            overflow[i] = 5 + rng.poisson((level - limit) / 1_514.0 * dns)
            level, window = limit, 0.15
        backlog[i], average[i] = level, mean
    arrived = np.cumsum(rng.poisson(88, count))
    packets = (backlog / 1_450.0).astype(np.uint32)
    ring = np.minimum(backlog * 2.0, 112_626.0)
    dropped = np.cumsum(early + overflow)
    zeros = np.zeros(count, dtype=np.uint64)
    queues = {
        "t_s": t,
        "link": [LINK] * count,
        "backlog_packets": packets,
        "backlog_bytes": backlog.astype(np.uint64),
        "ring_packets": (ring / 1_450.0).astype(np.uint32),
        "ring_bytes": ring.astype(np.uint64),
        "average_packets": np.full(count, np.nan),
        "average_bytes": average if kind == "red" else np.full(count, np.nan),
        "sojourn_mean_ms": (backlog + ring) * 8e3 / RATE,
        "sojourn_max_ms": (backlog + ring) * 8e3 / RATE * 1.05,
        "arrived_packets": arrived.astype(np.uint64),
        "arrived_bytes": (arrived * 1_450).astype(np.uint64),
        "sent_packets": np.maximum(arrived - dropped - packets, 0).astype(np.uint64),
        "dropped_overflow": np.cumsum(overflow).astype(np.uint64),
        "dropped_early": np.cumsum(early).astype(np.uint64),
        "dropped_forced": zeros,
        "marked_early": zeros,
        "marked_forced": zeros,
        "dropped_dns": (dropped * 0.1).astype(np.uint64),
    }
    every = slice(4, None, 5)
    busy = np.cumsum(np.where(t < 1.0, 0.03, step))[every]
    links = {
        "t_s": t[every],
        "link": [LINK] * len(busy),
        "packets": (arrived - np.minimum(dropped, arrived))[every].astype(np.uint64),
        "bytes": (busy * RATE / 8).astype(np.uint64),
        "busy_s": busy,
        "lost": zeros[every],
    }
    return queues, links, float(t[-1])


def _dns(rng: Any, loss: float, workers: int, end_s: float, partial: bool) -> tuple[Any, Any]:
    rows: list[tuple[Any, ...]] = []
    tries: list[tuple[Any, ...]] = []
    for worker in range(workers):
        now = DNS_START_S
        for index in range(60):
            query, start, answered, rtt = len(rows), now, 0, float("nan")
            made = late = 0
            for number, timeout in enumerate(TIMEOUTS, start=1):
                made = number
                if rng.random() < loss:
                    fate = "query-lost" if rng.random() < 0.02 else "reply-lost"
                    tries.append((query, number, now, fate, LINK, "early", float("nan")))
                    now += timeout
                    continue
                answered, rtt = number, float(rng.normal(260.0, 20.0))
                tries.append((query, number, now, "answered", "", "", now + rtt / 1e3))
                now += rtt / 1e3
                break
            cut = partial and now > end_s - 40.0
            response = (now - start) * 1e3 if answered and not cut else float("nan")
            end = float("nan") if cut else now
            rows.append(
                (
                    *(query, "dns", worker, index, index >= 20, start, end),
                    *(0 if cut else answered, made, response, float("nan") if cut else rtt, late),
                )
            )
            if cut:
                break
    names = ("query", "group", "worker", "index", "measured", "start_s", "end_s")
    names += ("attempt", "attempts", "response_ms", "rtt_ms", "late_answers")
    tried = ("query", "attempt", "sent_s", "fate", "lost_at", "reason", "received_s")
    attempts: dict[str, Any] = {name: [row[i] for row in tries] for i, name in enumerate(tried)}
    answered_in_time = [int(fate == "answered") for fate in attempts["fate"]]
    attempts |= {
        "first_byte_s": attempts["received_s"],
        "transport": ["udp"] * len(tries),
        "reused": [False] * len(tries),
        "handshake_round_trips": [0] * len(tries),
        "handshake_ms": [float("nan")] * len(tries),
        "packets_sent": [1] * len(tries),
        "bytes_sent": [70] * len(tries),
        "packets_received": answered_in_time,
        "bytes_received": [100 * received for received in answered_in_time],
    }
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}, attempts


def _flows(rng: Any, end_s: float) -> dict[str, Any]:
    count = 120
    received = (rng.normal(1.0, 0.1, count) * RATE / 8 * 0.93 * end_s / count).astype(np.uint64)
    sent = received // 1_448
    again = (sent * 0.08).astype(np.uint64)
    nothing = np.zeros(count, dtype=np.uint32)
    return {
        "flow": np.arange(count, dtype=np.uint32),
        "name": [f"background-{i}" for i in range(count)],
        "group": ["background"] * count,
        "sender": ["gen1"] * count,
        "receiver": ["recv1"] * count,
        "ecn": np.zeros(count, dtype=bool),
        "start_s": np.linspace(0.0, 1.0, count),
        "established_s": np.linspace(0.2, 1.2, count),
        "end_s": np.full(count, np.nan),
        "bytes_acked": received,
        "bytes_received": received,
        "segments_sent": sent + again,
        "segments_retransmitted": again,
        "timeouts": nothing + 3,
        "fast_recoveries": nothing + 20,
        "ecn_reductions": nothing,
        "tail_probes": nothing,
        "undos": nothing,
        "marks_received": nothing.astype(np.uint64),
        "srtt_ms": rng.normal(420.0, 20.0, count),
        "min_rtt_ms": np.full(count, 210.0),
        "cwnd_segments": np.full(count, 3.0),
        "cwnd_mean_segments": np.full(count, 3.1),
        "busy_s": np.full(count, end_s),
        "rwnd_limited_s": np.zeros(count),
    }


def _goodput(flows: dict[str, Any], end_s: float) -> dict[str, Any]:
    times = np.linspace(0.0, end_s, 101)[1:]
    return {
        "t_s": times,
        "group": ["background"] * len(times),
        "direction": ["forward"] * len(times),
        "bytes_received": (flows["bytes_received"].sum() * times / end_s).astype(np.uint64),
    }


def _bursts(rng: Any) -> dict[str, Any]:
    count = 200
    start = np.sort(rng.uniform(0.0, 100.0, count))
    end = start + rng.gamma(4.0, 0.3, count)
    end[-5:] = np.nan
    return {
        "flow": np.arange(count, dtype=np.uint32) % 20,
        "burst": np.arange(count, dtype=np.uint32) // 20,
        "start_s": start,
        "end_s": end,
        "bytes": np.full(count, 384_000, dtype=np.uint64),
        "segments_retransmitted": rng.poisson(2.0, count).astype(np.uint64),
    }
