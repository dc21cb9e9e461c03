"""Samples a machine's queue disciplines, and makes a run of the samples.

A queue is named after its device: `eth0` is the device's root discipline, `eth0/10:` a discipline
below it, by its handle. Devices without a queue (`noqueue`, such as loopback) are left out.
Counters start at zero when watching starts.
"""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from narrows import _core
from narrows.backends.kernel.inside.agent.rtnetlink import Netlink
from narrows.backends.kernel.inside.agent.samples import reasons
from narrows.errors import NarrowsError
from narrows.results import Run

Counters = dict[str, int]

_ROOT = 0xFFFFFFFF
_INGRESS = ("ingress", "clsact")
_DEVICES = Path("/sys/class/net")

LATE = 0.5
"""A sample counts as missed if it is late by this share of its period."""


class MonitorError(NarrowsError):
    """The machine or the device cannot be watched."""


class Reading(NamedTuple):
    """A sample of one queue."""

    t_s: float
    queue: str
    kind: str
    counters: Mapping[str, int]
    """`backlog_packets` and `backlog_bytes`; and since watching started, `sent_packets`,
    `sent_bytes`, `drops`, `dropped_early`, `dropped_overflow` and `marked`."""


class Watch:
    """Watches one device, or all devices that have a queue.

    Raises:
        MonitorError: This is not Linux, there is no such device, or no device has a queue.
    """

    def __init__(self, device: str | None = None, *, rate: float = 10.0) -> None:
        """Looks for queues; takes no sample yet.

        Args:
            device: The device's name; all devices by default.
            rate: Samples per second.
        """
        if platform.system() != "Linux":
            raise MonitorError(f"{platform.system()} is not Linux; hint: watch a Linux machine")
        devices = sorted(name for _, name in socket.if_nameindex())
        if device is not None and device not in devices:
            known = ", ".join(devices)
            raise MonitorError(f"{device}: no such interface; hint: one of {known}")
        self.device = device
        self.missed = 0
        self._period = 1.0 / rate
        self._rate = rate
        self._started = datetime.now(UTC)
        self.origin = time.monotonic()
        """`CLOCK_MONOTONIC` when the samples' times began."""
        self._kinds: dict[str, str] = {}
        self._first: dict[str, Counters] = {}
        self._readings: list[Reading] = []
        self._failed_before = self._failed()
        self._end_s = 0.0
        if not self._look():
            where = "no interface" if device is None else device
            said = "has a queue" if device is None else "has no queue"
            raise MonitorError(
                f"{where} {said}; hint: tc qdisc show lists the queues; a queue named noqueue does "
                "not count"
            )

    @property
    def queues(self) -> Mapping[str, str]:
        """The kind of each watched queue, by its name."""
        return dict(self._kinds)

    def readings(self, duration_s: float | None = None) -> Iterator[list[Reading]]:
        """Samples all queues at the rate, until the time is over.

        Args:
            duration_s: The time in seconds; by default without end.
        """
        number = 0
        self.origin = time.monotonic()
        self._first = {name: counters for name, (_, counters) in self._look().items()}
        while duration_s is None or (number + 1) * self._period <= duration_s + 1e-9:
            due = (number + 1) * self._period
            now = time.monotonic() - self.origin
            if now < due:
                time.sleep(due - now)
                now = time.monotonic() - self.origin
            missed = int((now - due) / self._period + (1.0 - LATE))
            self.missed += missed
            number += 1 + missed
            found = self._sample(now)
            self._readings += found
            self._end_s = now
            yield found

    def run(self, *, complete: bool = True) -> Run:
        """Returns everything so far as a run.

        Args:
            complete: Whether it lasted as long as planned.
        """
        readings = self._readings
        speeds = {name: _speed(name) for name in {each.queue for each in readings}}
        roots = [each for each in readings if "/" not in each.queue]
        return Run.from_columns(
            {"queues": _queue_columns(readings), "links": _link_columns(roots, speeds)},
            scenario={
                "name": f"monitor-{self.device or 'all'}",
                "interface": self.device or "all",
                "rate": self._rate,
            },
            seed=0,
            backend="monitor",
            status="complete" if complete else "partial",
            stopped="end" if complete else "interrupted",
            end_s=self._end_s,
            events=0,
            narrows=_core.version,
            wall={"started": self._started.isoformat(timespec="seconds")},
            host={
                "system": platform.system(),
                "release": platform.release(),
                "node": platform.node(),
                "missed_samples": self.missed,
                "queues": dict(self.queues),
                "neighbours_failed": self.neighbours_failed,
            },
        )

    @property
    def neighbours_failed(self) -> int:
        """Neighbour entries that failed since the start, because nobody answered ARP."""
        return max(0, self._failed() - self._failed_before)

    def _sample(self, now: float) -> list[Reading]:
        found = []
        for name, (kind, counters) in self._look().items():
            # The counters of a new queue, or of one that was replaced, begin at zero.
            first = self._first.setdefault(name, counters)
            if counters["sent_packets"] < first["sent_packets"]:
                first = self._first[name] = dict.fromkeys(counters, 0)
            rest = {
                key: value if key.startswith("backlog") else max(0, value - first[key])
                for key, value in counters.items()
            }
            found.append(Reading(now, name, kind, rest))
        return found

    def _look(self) -> dict[str, tuple[str, Counters]]:
        """The kind and the counters of each queue, by its name."""
        netlink = Netlink()
        try:
            entries = list(netlink.qdiscs())
        finally:
            netlink.close()
        found = {}
        for entry in entries:
            kind = entry.get("kind", "")
            if kind in ("noqueue", *_INGRESS) or "qlen" not in entry:
                continue
            try:
                device = socket.if_indextoname(entry["index"])
            except OSError:
                # The device has disappeared in the meantime.
                continue
            if self.device not in (None, device):
                continue
            name = device
            if entry["parent"] != _ROOT:
                name = f"{device}/{entry['handle'] >> 16:x}:" if entry["handle"] else ""
            if name:
                found[name] = (kind, _counters(entry))
                self._kinds[name] = kind
        return found

    def _failed(self) -> int:
        """`res_failed` of the neighbour tables."""
        total = 0
        for family in ("arp", "ndisc"):
            place = Path(f"/proc/thread-self/net/stat/{family}_cache")
            if not place.exists():
                continue
            names, *rows = (line.split() for line in place.read_text().splitlines())
            if "res_failed" in names:
                total += sum(int(row[names.index("res_failed")], 16) for row in rows)
        return total


def _counters(entry: Mapping[str, Any]) -> Counters:
    why = reasons(entry)
    return {
        "backlog_packets": entry["qlen"],
        "backlog_bytes": entry["backlog"],
        "sent_packets": entry["packets"],
        "sent_bytes": entry["bytes"],
        "drops": entry["drops"],
        "dropped_early": why["dropped_early"],
        "dropped_overflow": why["dropped_overflow"],
        "marked": why["marked"],
    }


def _speed(queue: str) -> float | None:
    """The line's rate in bits per second; None if the card does not report it."""
    try:
        speed = int((_DEVICES / queue.partition("/")[0] / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed * 1e6 if speed > 0 else None


def _queue_columns(readings: Sequence[Reading]) -> dict[str, list[Any]]:
    def column(key: str) -> list[int]:
        return [each.counters[key] for each in readings]

    none: list[None] = [None] * len(readings)
    zero = [0] * len(readings)
    return {
        "t_s": [each.t_s for each in readings],
        "link": [each.queue for each in readings],
        "backlog_packets": column("backlog_packets"),
        "backlog_bytes": column("backlog_bytes"),
        "ring_packets": none,
        "ring_bytes": none,
        "average_packets": none,
        "average_bytes": none,
        "sojourn_mean_ms": none,
        "sojourn_max_ms": none,
        "arrived_packets": [
            each.counters["sent_packets"]
            + each.counters["drops"]
            + each.counters["backlog_packets"]
            for each in readings
        ],
        "arrived_bytes": [
            each.counters["sent_bytes"] + each.counters["backlog_bytes"] for each in readings
        ],
        "sent_packets": column("sent_packets"),
        "dropped_overflow": column("dropped_overflow"),
        "dropped_early": column("dropped_early"),
        "dropped_forced": zero,
        "marked_early": column("marked"),
        "marked_forced": zero,
        "dropped_dns": none,
    }


def _link_columns(
    readings: Sequence[Reading], speeds: Mapping[str, float | None]
) -> dict[str, list[Any]]:
    busy = []
    for each in readings:
        speed = speeds[each.queue]
        busy.append(None if speed is None else 8.0 * each.counters["sent_bytes"] / speed)
    return {
        "t_s": [each.t_s for each in readings],
        "link": [each.queue for each in readings],
        "packets": [each.counters["sent_packets"] for each in readings],
        "bytes": [each.counters["sent_bytes"] for each in readings],
        "busy_s": busy,
        "lost": [0] * len(readings),
    }
