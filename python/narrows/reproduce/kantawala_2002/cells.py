"""The paper's experiments as settings on three scenarios: queue and buffer, and their scaling."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.reproduce.cells import Cell
from narrows.reproduce.kantawala_2002.queues import QUEUES, TITLES, queue
from narrows.reproduce.kantawala_2002.scaling import BIG, POINTS, Big, Point


@dataclass(frozen=True)
class Topology:
    """One of the paper's three networks."""

    name: str
    title: str
    scenario: str
    bottlenecks: tuple[str, ...]
    groups: tuple[str, ...]
    """The names of the groups of traffic."""
    limits: tuple[int, ...]
    """The buffers that we run, in packets, out of the paper's 100 to 20000."""
    row_limits: tuple[int, ...]
    """The buffers that run again under other choices."""


SINGLE = Topology(
    "single",
    "single bottleneck",
    "single-bottleneck.toml",
    ("bottleneck",),
    ("sources",),
    (100, 200, 400, 1000, 2000, 5000, 20_000),
    (200, 1000, 5000),
)
ROUND_TRIPS = Topology(
    "rtt",
    "two round-trip times",
    "two-round-trips.toml",
    ("bottleneck",),
    ("near", "far"),
    (100, 200, 400, 1000, 2000, 5000, 20_000),
    (200, 1000, 5000),
)
HOPS = Topology(
    "hops",
    "three bottlenecks",
    "three-hops.toml",
    ("bottleneck1", "bottleneck2", "bottleneck3"),
    ("end", "cross1", "cross2", "cross3"),
    (100, 400, 1000, 5000, 20_000),
    (1000, 5000),
)

TOPOLOGIES = {topology.name: topology for topology in (SINGLE, ROUND_TRIPS, HOPS)}


def name(topology: str, which: str, limit: int, variant: str = "") -> str:
    """A cell's name, such as `single-qsdrr-5000`; a variant is at its end."""
    return f"{topology}-{which}-{limit}" + (f"-{variant}" if variant else "")


def topology_of(cell: str) -> Topology:
    """The network of a cell; cells of the scaling have the single bottleneck."""
    return TOPOLOGIES.get(cell.partition("-")[0], SINGLE)


def queue_settings(topology: Topology, text: str) -> dict[str, str]:
    """Settings that put a queue at each bottleneck."""
    return {f"links.{link}.forward.queue": text for link in topology.bottlenecks}


def queue_key(topology: Topology, key: str, value: str) -> dict[str, str]:
    """Settings of one key of the queue at each bottleneck."""
    return {f"links.{link}.forward.queue.{key}": value for link in topology.bottlenecks}


def tcp(topology: Topology, **keys: str) -> dict[str, str]:
    """TCP settings of every group of traffic."""
    return {
        f"traffic.{group}.tcp.{key}": value
        for group in topology.groups
        for key, value in keys.items()
    }


TAHOE_LIMITS = {
    "single": SINGLE.limits,
    "rtt": ROUND_TRIPS.limits,
    # The other buffers would take as long as those of the other two networks together.
    "hops": HOPS.row_limits,
}
"""Buffers that are run with Tahoe as well, by network."""

WEIGHTS = (0.5, 0.001, 1e-6)
"""TDRR's weights besides the printed 0.03125: the ends of the paper's range, and one within."""
WEIGHT_LIMITS = (1000, 5000)


def _figures() -> list[Cell]:
    return [
        Cell(
            name(topology.name, which, limit),
            f"{TITLES[which]}, {limit} packets, {topology.title}",
            topology.scenario,
            queue_settings(topology, queue(which, limit)),
        )
        for topology in TOPOLOGIES.values()
        for which in QUEUES
        for limit in topology.limits
    ]


def _tahoe() -> list[Cell]:
    return [
        Cell(
            name(topology.name, which, limit, "tahoe"),
            f"{TITLES[which]}, {limit} packets, {topology.title}, Tahoe",
            topology.scenario,
            {**queue_settings(topology, queue(which, limit)), **tcp(topology, recovery="tahoe")},
        )
        for topology in TOPOLOGIES.values()
        for which in QUEUES
        for limit in TAHOE_LIMITS[topology.name]
    ]


def weighted(topology: str, limit: int, weight: float) -> str:
    """The name of a cell with another weight of TDRR."""
    return name(topology, "tdrr", limit, f"w{weight:g}")


def _weights() -> list[Cell]:
    return [
        Cell(
            weighted(topology.name, limit, weight),
            f"TDRR with weight {weight:g}, {limit} packets, {topology.title}",
            topology.scenario,
            queue_settings(topology, queue("tdrr", limit, weight=weight)),
        )
        for topology in (SINGLE, ROUND_TRIPS)
        for limit in WEIGHT_LIMITS
        for weight in WEIGHTS
    ]


def _scaled(point: Point, which: str) -> Cell:
    buffer = max(2, round(point.product_packets))
    return Cell(
        point.cell(which),
        f"{TITLES[which]}, {point.title}",
        SINGLE.scenario,
        {
            **_size(point.sources, point.rate_bps),
            # All of the round trip but a hundredth is in the bottleneck.
            "links.bottleneck.delay": f"{0.49 * point.rtt_s * 1e3:.6f} ms",
            "links[1].delay": f"{0.005 * point.rtt_s * 1e3:.6f} ms",
            "links[2].delay": f"{0.005 * point.rtt_s * 1e3:.6f} ms",
            **queue_settings(SINGLE, queue(which, buffer)),
        },
        seeds=3,
    )


def _big(big: Big, which: str) -> Cell:
    return Cell(
        big.cell(which),
        f"{TITLES[which]}, {big.title}",
        SINGLE.scenario,
        {
            **_size(big.sources, big.rate_bps),
            **queue_settings(SINGLE, queue(which, big.buffer)),
        },
        seeds=big.seeds,
        quick={"duration": "20 s"},
        own_process=True,
    )


HOSTS = 500
"""With more sources than this, several share a host, whose link is faster by that factor."""


def _size(sources: int, rate_bps: float) -> dict[str, str]:
    """A number of sources behind a bottleneck of a given rate."""
    hosts = sources if sources <= HOSTS else _hosts(sources)
    each = sources // hosts
    return {
        "links.bottleneck.rate": f"{rate_bps:.0f} bit/s",
        "links.bottleneck.backward.queue.limit": str(max(10_000, 20 * sources)),
        "links[1].count": str(hosts),
        "links[2].count": str(hosts),
        "links[1].rate": f"{100 * each} Mbit/s",
        "links[2].rate": f"{100 * each} Mbit/s",
        "links[1].queue.limit": str(10_000 * each),
        "links[2].queue.limit": str(10_000 * each),
        "traffic[0].count": str(hosts),
        "traffic[0].connections": str(each),
    }


def _hosts(sources: int) -> int:
    """The most hosts, up to `HOSTS`, over which the sources spread evenly."""
    return max(hosts for hosts in range(1, HOSTS + 1) if sources % hosts == 0)


SCALED = ("droptail", "qsdrr")
"""Figure 8's queues."""

CELLS = (
    _figures()
    + _tahoe()
    + _weights()
    + [_scaled(point, which) for point in POINTS for which in SCALED]
    + [_big(big, which) for big in BIG for which in SCALED]
)
