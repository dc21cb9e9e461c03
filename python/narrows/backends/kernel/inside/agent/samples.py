"""Samples of queues, links and the processor, from the kernel's counters, at a fixed rate.

If a sample is late because the machine stalled, it has the time at which it was really taken. The
sampler counts the samples that are missing in the gap.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

from . import system
from .loop import Loop
from .rtnetlink import Netlink, attributes

LATE = 0.5
"""A sample that is late by this share of its period leaves a gap."""


class Sampler:
    """Takes all samples of a job that have the same rate."""

    def __init__(self, job: Mapping[str, Any], loop: Loop) -> None:
        self._loop = loop
        self._period: float = 1.0 / job["rate"]
        self._of = job["of"]
        self._number = 0
        self.gaps = 0
        self.rows: list[dict[str, Any]] = []
        self._sockets: dict[str, Netlink] = {}
        self._index: dict[tuple[str, str], int] = {}
        self._counted = Counted()
        self.processor: list[dict[str, Any]] = []
        """Processor time for the packets of each node, if the kernel has a meter."""
        self._meters: dict[str, int] = {}
        for entry in self._of:
            with contextlib.suppress(FileNotFoundError), system.inside(entry["queue"][0]):
                # Files opened here still belong to the namespace later.
                meter = os.open("/proc/thread-self/net/processor", os.O_RDONLY)
                self._meters.setdefault(entry["node"], meter)
            for namespace, device in (entry["queue"], entry["wire"]):
                if namespace not in self._sockets:
                    with system.inside(namespace):
                        self._sockets[namespace] = Netlink()
                with system.inside(namespace):
                    self._index[namespace, device] = socket.if_nametoindex(device)

    def start(self) -> None:
        """Takes the first sample one period after the run's start."""
        self._loop.at(self._due(), self._sample)

    def _due(self) -> float:
        # Samples stay off the grid of the hosts' jiffies, on which acknowledgement timers fire. On
        # that grid, queues would look a few per cent too short.
        return (self._number + 1) * self._period + 0.0033

    def _sample(self) -> None:
        now = self._loop.now()
        missed = int((now - self._due()) / self._period + (1.0 - LATE))
        if missed > 0:
            self.gaps += missed
            self._number += missed
        found = {
            namespace: {(entry["index"], entry["handle"]): entry for entry in netlink.qdiscs()}
            for namespace, netlink in self._sockets.items()
        }
        for entry in self._of:
            row = self._counted.go_on(entry["link"], self._row(entry, found))
            self.rows.append({"t_s": now, "link": entry["link"], **row})
        for node, meter in self._meters.items():
            spent_ns, turns = map(int, os.pread(meter, 100, 0).split())
            row = {"t_s": now, "node": node, "cpu_s": spent_ns / 1e9, "turns": turns}
            self.processor.append(row)
        self._number += 1
        self._loop.at(self._due(), self._sample)

    def _row(self, entry: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        queue = self._at(entry["queue"], entry["queue_handle"], found)
        root = self._at(entry["queue"], entry["root_handle"], found)
        wire = self._at(entry["wire"], entry["wire_handle"], found)
        return {
            "backlog_packets": queue["qlen"],
            "backlog_bytes": queue["backlog"],
            **in_ring(entry, wire),
            "sent_packets": root["packets"],
            "sent_bytes": root["bytes"],
            "wire_packets": wire["packets"],
            "wire_bytes": wire["bytes"],
            "drops": queue["drops"],
            "lost": wire["drops"] if entry["lossy"] else 0,
            **reasons(queue),
        }

    def _at(self, place: tuple[str, str], handle: int, found: Mapping[str, Any]) -> Any:
        return found[place[0]][self._index[place[0], place[1]], handle]


class Counted:
    """Counts of queues over the whole run: those of a queue that replaces another begin at 0."""

    _KEYS = ("drops", "dropped_early", "dropped_overflow", "marked")

    def __init__(self) -> None:
        self._last: dict[str, dict[str, int]] = {}
        self._before: dict[str, dict[str, int]] = {}

    def go_on(self, link: str, row: dict[str, Any]) -> dict[str, Any]:
        """A row whose counts go on where those of the queue before ended."""
        last = self._last.get(link, dict.fromkeys(self._KEYS, 0))
        before = self._before.setdefault(link, dict.fromkeys(self._KEYS, 0))
        if any(row[key] < last[key] for key in self._KEYS):
            self._before[link] = before = {key: before[key] + last[key] for key in self._KEYS}
        self._last[link] = {key: row[key] for key in self._KEYS}
        return {**row, **{key: row[key] + before[key] for key in self._KEYS}}


def in_ring(entry: Mapping[str, Any], wire: Mapping[str, Any]) -> dict[str, int | None]:
    """Packets and bytes in the ring. Without a ring, the kernel does not say what it transmits."""
    if not entry["ring"]:
        return {"ring_packets": None, "ring_bytes": None}
    # Of the bytes that the wire holds, `propagation_bytes` are already on their way.
    ring = max(0, wire["backlog"] - entry["propagation_bytes"])
    packets = wire["qlen"] * ring // wire["backlog"] if ring else 0
    return {"ring_packets": packets, "ring_bytes": ring}


def reasons(queue: Mapping[str, Any]) -> dict[str, int]:
    """Early drops by the discipline, drops for lack of room, and marks (pkt_sched.h)."""
    app, drops = queue.get("app", b""), queue["drops"]
    if queue["kind"] == "red" and len(app) >= 16:
        early, full, _other, marked = struct.unpack_from("4I", app)
        return {"dropped_early": early, "dropped_overflow": drops - early, "marked": marked}
    if queue["kind"] == "codel" and len(app) >= 36:
        # struct tc_codel_xstats: ..., drop_overlimit, ecn_mark, dropping, ce_mark.
        full, marked, _dropping, by_threshold = struct.unpack_from("4I", app, 20)
        marked += by_threshold
        return {"dropped_early": drops - full, "dropped_overflow": full, "marked": marked}
    if queue["kind"] == "fq_codel" and len(app) >= 32:
        # The type, then struct tc_fq_codel_qd_stats: maxpacket, drop_overlimit, ecn_mark, three
        # counts of flows, ce_mark.
        _kind, _largest, full, marked, _flows, _new, _old, by_threshold = struct.unpack_from(
            "8I", app
        )
        marked += by_threshold
        return {"dropped_early": drops - full, "dropped_overflow": full, "marked": marked}
    if queue["kind"] == "fq" and len(app) >= 88:
        # struct tc_fq_qd_stats: eight numbers of 64 bits, four of 32, and ce_mark.
        (marked,) = struct.unpack_from("Q", app, 80)
        return {"dropped_early": 0, "dropped_overflow": drops, "marked": marked}
    if queue["kind"] == "dualpi2" and len(app) >= 32:
        # struct tc_dualpi2_xstats: prob, delay_c, delay_l, packets_in_c, packets_in_l, maxq,
        # ecn_mark. Only packets that find no room count as `overlimits`.
        (marked,) = struct.unpack_from("I", app, 24)
        full = queue["overlimits"]
        return {"dropped_early": drops - full, "dropped_overflow": full, "marked": marked}
    if queue["kind"] == "cake":
        # TCA_CAKE_STATS_TIN_STATS has attributes for each tin, and the count of ECN marks is one of
        # them. Linux does not tell drops by COBALT from drops for lack of room.
        tins = (
            tin for kind, value in attributes(app) if kind == 10 for _, tin in attributes(value)
        )
        nested = (each for tin in tins for each in attributes(tin))
        marked = sum(struct.unpack_from("I", value)[0] for kind, value in nested if kind == 8)
        return {"dropped_early": drops, "dropped_overflow": 0, "marked": marked}
    if queue["kind"] == "pie" and len(app) >= 40:
        # struct tc_pie_xstats: prob (u64), delay, avg_dq_rate, dq_rate_estimating, packets_in,
        # dropped, overlimit, maxq, ecn_mark (u32). `dropped` also counts packets that found no room
        # (pie_qdisc_enqueue, Linux 6.1).
        dropped, full, _most, marked = struct.unpack_from("4I", app, 24)
        return {"dropped_early": dropped - full, "dropped_overflow": full, "marked": marked}
    if queue["kind"] == "fq_pie" and len(app) >= 20:
        # struct tc_fq_pie_xstats: packets_in, dropped, overlimit, overmemory, ecn_mark (u32), and
        # more. `dropped` also counts packets that found no room.
        dropped, full, _memory, marked = struct.unpack_from("4I", app, 4)
        return {"dropped_early": dropped - full, "dropped_overflow": full, "marked": marked}
    return {"dropped_early": 0, "dropped_overflow": drops, "marked": 0}
