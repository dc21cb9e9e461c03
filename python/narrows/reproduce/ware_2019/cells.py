"""The experiments: a buffer and a rival each, and what the sources leave open."""

from __future__ import annotations

from narrows.reproduce.cells import Cell, Choice

PRODUCT = 10e6 * 0.04 / 8 / 1500
"""The bandwidth-delay product in packets of 1500 bytes: 33.3."""

BUFFERS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)
"""Buffers in bandwidth-delay products."""
BUFFERS_8A = (1, 2, 4, 8, 16, 32, 64)

LIMIT = "links.bottleneck.queue.limit"
RIVALS = {"cubic": "CUBIC", "reno": "Reno"}
MANY = "sixteen"
LOSSY = {"cubic": "lossy-cubic", "bbr": "lossy-bbr"}
LOSSY_S = {"cubic": 30, "bbr": 10}
"""Seconds. BBR sends as much in one as CUBIC in an hour, and reaches its rate in the first."""


def name(rival: str, buffer: float) -> str:
    """The cell of one BBR connection against one of `rival`."""
    return f"{rival}-{buffer:g}"


def name_8a(connections: int, buffer: float) -> str:
    """The cell of Figure 8a with so many BBR connections against one of CUBIC."""
    return f"8a-{connections}-{buffer:g}"


def packets(buffer: float) -> str:
    """A buffer's length in packets, as a setting."""
    return str(round(buffer * PRODUCT))


CELLS = [
    *(
        Cell(
            name(rival, buffer),
            f"BBR against {title}, {buffer:g} BDP",
            "shared.toml",
            {LIMIT: packets(buffer), "traffic.other.tcp.congestion": f'"{rival}"'},
        )
        for rival, title in RIVALS.items()
        for buffer in BUFFERS
    ),
    *(
        Cell(
            name_8a(connections, buffer),
            f"{connections} BBR against CUBIC for 400 s, {buffer:g} BDP",
            "shared.toml",
            {
                LIMIT: packets(buffer),
                "duration": '"400 s"',
                "traffic.bbr.connections": str(connections),
            },
        )
        for connections in (1, 8)
        for buffer in BUFFERS_8A
    ),
    Cell(
        MANY,
        "1 BBR against 16 CUBIC for 400 s, 32 BDP",
        "shared.toml",
        {LIMIT: packets(32), "duration": '"400 s"', "traffic.other.connections": "16"},
    ),
    *(
        Cell(
            cell,
            f"{congestion}, 1 % of random loss",
            "lossy.toml",
            {
                "traffic.bbr.tcp.congestion": f'"{congestion}"',
                "duration": f'"{LOSSY_S[congestion]} s"',
            },
            seeds=3,
            quick={"duration": '"5 s"'},
        )
        for congestion, cell in LOSSY.items()
    ),
]

SHARED = frozenset(cell.name for cell in CELLS if cell.scenario == "shared.toml")

CHOICES = [
    Choice(
        "bursts of segmentation offload",
        "the hosts of the experiments send bursts of at least two segments, as Mininet's do",
        {"traffic.bbr.tcp.segmentation_offload": "true"},
        cells=SHARED,
        on_kernel=False,
    ),
    Choice(
        "the other begins 5 s later",
        "no source says which connection begins",
        {"traffic.other.start": '"5 s"'},
        cells=SHARED,
    ),
    Choice(
        "BBR begins 5 s later",
        "no source says which connection begins",
        {"traffic.bbr.start": '"5 s"'},
        cells=SHARED,
    ),
    Choice(
        "receive windows without a limit",
        "Linux's default of 3 MB in flight is less than the longest buffers hold",
        {f"traffic.{group}.tcp.receive_buffer": '"64 MiB"' for group in ("bbr", "other")},
        cells=SHARED,
    ),
]
