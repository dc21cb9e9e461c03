"""Other choices for what the paper leaves open; README.md says what we chose, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from narrows.reproduce.cells import Cell, Choice
from narrows.reproduce.kantawala_2002.cells import (
    HOPS,
    ROUND_TRIPS,
    SCALED,
    SINGLE,
    Topology,
    name,
    queue_key,
    tcp,
    topology_of,
)
from narrows.reproduce.kantawala_2002.queues import FAMILY, QUEUES
from narrows.reproduce.kantawala_2002.scaling import POINTS

_ALL = (SINGLE, ROUND_TRIPS, HOPS)
_SCALING = frozenset(point.cell(which) for point in POINTS for which in SCALED)


def _some(topologies: Iterable[Topology], queues: Iterable[str] = QUEUES) -> frozenset[str]:
    """Cells that choices run again: those of some networks and queues."""
    kept = tuple(queues)
    return frozenset(
        name(topology.name, which, limit)
        for topology in topologies
        for which in kept
        for limit in topology.row_limits
    )


def _tcp(**keys: str) -> Callable[[Cell], Mapping[str, str]]:
    return lambda cell: tcp(topology_of(cell.name), **keys)


def _queue(key: str, value: str) -> Callable[[Cell], Mapping[str, str]]:
    return lambda cell: queue_key(topology_of(cell.name), key, value)


def _delays(delay: str) -> Callable[[Cell], Mapping[str, str]]:
    return lambda cell: {
        f"links.{link}.delay": delay for link in topology_of(cell.name).bottlenecks
    }


def _choice(
    title: str,
    reason: str,
    of_cell: Callable[[Cell], Mapping[str, str]],
    cells: frozenset[str],
) -> Choice:
    return Choice(title, reason, {}, cells, alone=True, of_cell=of_cell)


VERSIONS = (
    _choice(
        "ns-2 of August 2001",
        "the paper does not say which ns-2 it used: that of the authors' study of August 2001 has "
        "timeouts of 1 s and more, a first one of 6 s, a clock of 100 ms, and no limited transmit",
        _tcp(min_rto="1 s", initial_rto="6 s", max_rto="1000 s", timer_granularity="100 ms"),
        _some(_ALL),
    ),
    _choice(
        "ns-2 of 2002",
        "the paper does not say which ns-2 it used: ns-2.1b9 of May 2002 has timeouts of 1 s and "
        "more, a first one of 6 s, and limited transmit",
        _tcp(min_rto="1 s", initial_rto="6 s", max_rto="1000 s", limited_transmit="true"),
        _some(_ALL),
    ),
)
"""Two versions of ns-2; README.md has the dates on which it changed."""

CHOICES = [
    *VERSIONS,
    _choice(
        "window kept between bursts",
        "the paper does not say whether a burst restarts slow start",
        _tcp(restart_after_idle="keep"),
        _some(_ALL),
    ),
    _choice(
        "slow start up to an old threshold",
        "ns-2's own restart after idle sets the window back and keeps the threshold",
        _tcp(restart_after_idle="slow-start"),
        _some((SINGLE, ROUND_TRIPS)),
    ),
    _choice(
        "window of 20 packets",
        "ns-2's default limit of the window, if it was left so",
        _tcp(receive_buffer="29200 B"),
        _some(_ALL),
    ),
    _choice(
        "SACK",
        "the paper has Reno, which several losses in a window stop",
        _tcp(sack="true", recovery="sack", reduction="prr"),
        _some(_ALL),
    ),
    _choice(
        "NewReno",
        "Reno, changed for several losses in a window",
        _tcp(recovery="new-reno"),
        _some((SINGLE, ROUND_TRIPS)),
    ),
    _choice(
        "limited transmit",
        "RFC 3042, which ns-2.1b9 of May 2002 has by default",
        _tcp(limited_transmit="true"),
        _some((SINGLE, ROUND_TRIPS)),
    ),
    _choice(
        "timeouts of 1 s at least",
        "the paper does not print the smallest retransmission timeout (RFC 6298: 1 s)",
        _tcp(min_rto="1 s"),
        _some((SINGLE, ROUND_TRIPS)),
    ),
    _choice(
        "bottleneck delay 10 ms",
        "the paper does not print the delays of Figures 2 and 4",
        _delays("10 ms"),
        _some((SINGLE, HOPS)),
    ),
    _choice(
        "bottleneck delay 1 ms",
        "the paper does not print the delays of Figures 2 and 4",
        _delays("1 ms"),
        _some((SINGLE, HOPS)),
    ),
    _choice(
        "longest queue in packets",
        "the paper does not say whether the longest-queue rule counts bytes or packets",
        _queue("longest_by", "packets"),
        _some((SINGLE,), ("drr", "qsdrr")),
    ),
    _choice(
        "drop at the tail of the chosen queue",
        "the paper says where QSDRR drops (at the front), but not where DRR and TDRR do",
        _queue("drop_from", "tail"),
        _some(_ALL, FAMILY),
    ),
    _choice(
        "the newest of equally long queues",
        "the paper does not say which of several longest queues is chosen",
        _queue("ties", "newest"),
        _some((SINGLE, ROUND_TRIPS), ("drr", "qsdrr")),
    ),
    _choice(
        "TDRR samples with each packet",
        "the paper does not say how TDRR samples throughput: a packet's bytes by the time since "
        "the last",
        _queue("sample", "packet"),
        _some(_ALL, ("tdrr",)),
    ),
    _choice(
        "TDRR samples each second",
        "the paper does not say how TDRR samples throughput",
        _queue("sample", "1 s"),
        _some((SINGLE, ROUND_TRIPS), ("tdrr",)),
    ),
    _choice(
        "TDRR forgets flows without packets",
        "the paper does not say whether a queue's throughput outlives its packets",
        _queue("remember", "0"),
        _some((SINGLE, ROUND_TRIPS), ("tdrr",)),
    ),
    _choice(
        "QSDRR keeps its queue when that empties",
        "the paper does not say what QSDRR does then",
        _queue("when_empty", "keep"),
        _some(_ALL, ("qsdrr",)),
    ),
    _choice(
        "flows share 16 queues",
        "ns-2's own DRR hashes flows into 10 or 16 queues by default",
        _queue("buckets", "16"),
        _some((SINGLE, ROUND_TRIPS), FAMILY),
    ),
    Choice(
        "goodput while a burst is under way",
        "the paper does not say how it averages goodput: here a burst's bits by its completion "
        "time",
        {},
        reads={"goodput.all": "goodput_on.all", "ratio": "ratio_on"},
    ),
    Choice(
        "fair share as all flows' mean",
        "the paper does not say of what the abstract's 80 % and 40 % are shares",
        {},
        reads={"far_share": "far_share_of_mean"},
    ),
    _choice(
        "sources without idle times",
        "the paper does not say whether Figure 8's sources have idle times",
        lambda _: {"traffic[0].idle_mean": "0 s", "duration": "30 s"},
        _SCALING,
    ),
]
