"""The experiments, and what the paper leaves open."""

from __future__ import annotations

from narrows.reproduce.cells import Cell, Choice
from narrows.reproduce.hoiland_jorgensen_2018.published import RRUL, SHARES, STREAM_TCP

FORWARD = "links.bottleneck.forward"
BACKWARD = "links.bottleneck.backward"

ISOLATION = {
    "flows": "flows",
    "src": "dual-srchost",
    "dst": "dual-dsthost",
    "triple": "triple-isolate",
}
"""CAKE's isolation for each group of Figure 3's bars."""


def _cake(mbits: int, tins: str, more: str = "") -> str:
    return f'{{ kind = "cake", rate = "{mbits} Mbit/s", tins = "{tins}"{more} }}'


def _queue(direction: str, queue: str, mbits: int, more: str = "") -> dict[str, str]:
    """CAKE shapes by itself, on a fast link; FQ-CoDel has a link of that rate."""
    if queue == "fq-codel":
        return {f"{direction}.rate": f'"{mbits} Mbit/s"'}
    return {f"{direction}.rate": '"1 Gbit/s"', f"{direction}.queue": _cake(mbits, queue, more)}


FILTERS = {"off": "no-ack-filter", "conservative": "ack-filter"}


def _filtered(name: str, title: str, up: int, down: int, filter: str, more: dict[str, str]) -> Cell:
    return Cell(
        f"{name}-{filter}",
        f"{title}, ACK filter {filter}",
        "asymmetric.toml",
        {
            f"{FORWARD}.queue": _cake(up, "diffserv3", f', ack_filter = "{FILTERS[filter]}"'),
            f"{BACKWARD}.queue": _cake(down, "diffserv3"),
            **more,
        },
    )


GIGABIT = {
    "links.far.delay": '"50 ms"',
    "traffic.up-load.tcp.receive_buffer": '"64 MiB"',
    "traffic.down-load.tcp.receive_buffer": '"64 MiB"',
    "duration": '"30 s"',
    "measure.from": '"0 s"',
    "measure.to": '"30 s"',
}
"""The settings of C14: 1 Gbit/s, 100 ms."""

CELLS = [
    *(
        Cell(
            row.cell,
            row.title,
            "rrul.toml",
            _queue(FORWARD, row.queue, row.up_mbits) | _queue(BACKWARD, row.queue, 10),
            quick={"duration": '"65 s"', "measure.to": '"60 s"'},
        )
        for row in RRUL
    ),
    *(
        Cell(
            f"stream-{queue}", f"a stream beside 32 uploads, {queue}", "voip.toml",
            _queue(FORWARD, queue, 10),
        )
        for queue in STREAM_TCP
    ),
    *(
        Cell(
            f"isolation-{mode}",
            f"Figure 3, {mode}",
            "isolation.toml",
            {"links.bottleneck.queue.isolation": f'"{ISOLATION[mode]}"'},
        )
        for mode in SHARES
    ),
    Cell("tins", "Figure 4", "tins.toml"),
    Cell("hosts-4", "4 connections against 1, two destinations", "two-hosts.toml"),
    Cell(
        "hosts-16",
        "16 connections against 1, one destination",
        "two-hosts.toml",
        {"traffic.many.connections": "16", "traffic.one.receiver": '"a"'},
    ),
    *(_filtered("ack", "30/1 Mbit/s", 1, 30, filter, {}) for filter in FILTERS),
    *(
        _filtered("gigabit", "1000/20 Mbit/s", 20, 1000, filter, GIGABIT)
        for filter in FILTERS
    ),
]  # fmt: skip

_RRUL = frozenset(row.cell for row in RRUL)

CHOICES = [
    Choice(
        "bursts of segmentation offload",
        "Linux hosts send bursts, and CAKE splits them; FQ-CoDel does not",
        {
            f"traffic.{direction}-{name}.tcp.{key}": "true"
            for direction in ("up", "down")
            for name in ("bk", "be", "cs5", "ef")
            for key in ("pacing", "segmentation_offload")
        },
        cells=_RRUL,
        on_kernel=False,
    ),
    Choice(
        "the aggressive filter",
        "Figure 6 shows the filter; its aggressive form is another of CAKE's settings",
        {f"{FORWARD}.queue.ack_filter": '"ack-filter-aggressive"'},
        cells=frozenset({"ack-conservative", "gigabit-conservative"}),
    ),
]
