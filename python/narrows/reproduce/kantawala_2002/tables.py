"""The figures as tables: the results of every queue at every buffer, and the scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.reproduce.kantawala_2002.cells import (
    HOPS,
    ROUND_TRIPS,
    SCALED,
    SINGLE,
    Topology,
    name,
)
from narrows.reproduce.kantawala_2002.claims import CLAIMS
from narrows.reproduce.kantawala_2002.queues import QUEUES, TITLES
from narrows.reproduce.kantawala_2002.scaling import BIG, LARGE, POINTS, SMALL, WINDOWS
from narrows.reproduce.kantawala_2002.versions import long_paths, versions
from narrows.reproduce.measurements import Measurements, Table
from narrows.reproduce.statistics import plus_minus

if TYPE_CHECKING:
    from narrows.reproduce.statistics import Interval


def tables(outcome: Measurements) -> list[Table]:
    """The tables for which cells were run."""
    built = [
        _against_buffer(outcome, SINGLE, "goodput.all", "Figure 5(a): mean goodput, Mbit/s"),
        _against_buffer(outcome, SINGLE, "completion.all", "Figure 5(b): mean burst completion, s"),
        _against_buffer(outcome, ROUND_TRIPS, "ratio", "Figure 6(a): goodput ratio 200 ms / 40 ms"),
        _against_buffer(
            outcome, ROUND_TRIPS, "ratio_completion", "Figure 6(b): completion ratio 200 ms / 40 ms"
        ),
        _against_buffer(outcome, HOPS, "ratio", "Figure 7(a): goodput ratio end-to-end / cross"),
        _against_buffer(
            outcome, HOPS, "ratio_completion", "Figure 7(b): completion ratio end-to-end / cross"
        ),
        _scaling(outcome),
        _large(outcome),
        long_paths(outcome),
        versions(outcome, CLAIMS),
    ]
    return [table for table in built if table is not None]


def _against_buffer(
    outcome: Measurements, topology: Topology, metric: str, title: str
) -> Table | None:
    rows = []
    for limit in topology.limits:
        found = [outcome.interval(name(topology.name, which, limit), metric) for which in QUEUES]
        if any(found):
            rows.append([f"{limit}", *(plus_minus(interval, 3) for interval in found)])
    if not rows:
        return None
    return Table(title, ["buffer, packets", *(TITLES[which] for which in QUEUES)], rows)


def _scaling(outcome: Measurements) -> Table | None:
    rows = []
    for panel in ("rate", "sources", "rtt"):
        for window in WINDOWS:
            points = [p for p in POINTS if p.panel == panel and p.window == window]
            for which in SCALED:
                shares = [
                    interval.mean
                    for point in points
                    if (interval := outcome.interval(point.cell(which), "fair_share"))
                ]
                if shares:
                    rows.append(
                        [
                            TITLES[which],
                            {"rate": "bandwidth", "sources": "sources", "rtt": "round trip"}[panel],
                            f"{window}",
                            f"{len(shares)}",
                            f"{min(shares):.1f}",
                            f"{max(shares):.1f}",
                        ]
                    )
    if not rows:
        return None
    return Table(
        "Figure 8: goodput in percent of the fair share",
        ["queue", "varied", "window, packets", "points", "smallest", "largest"],
        rows,
        "A line of the figure is flat where smallest and largest agree.",
    )


def _large(outcome: Measurements) -> Table | None:
    rows = []
    for big in BIG:
        for which in SCALED:
            cell = big.cell(which)
            if outcome.runs(cell):
                rows.append(
                    [
                        f"{big.sources}",
                        TITLES[which],
                        f"{big.buffer}",
                        *(
                            plus_minus(outcome.interval(cell, metric), 3)
                            for metric in ("goodput.all", "completion.all", "utilisation")
                        ),
                        *(
                            _plain(outcome.interval(cell, metric))
                            for metric in ("cpu_s_per_100_s", "peak_mb")
                        ),
                    ]
                )
    if not rows:
        return None
    return Table(
        "The open question: 0.5 Mbit/s a source, 100 ms, up to 20000 sources over 10 Gbit/s",
        [
            "sources",
            "queue",
            "buffer, packets",
            "goodput of a flow, Mbit/s",
            "burst completion, s",
            "utilisation, %",
            "CPU s for 100 s",
            "peak MB",
        ],
        rows,
        _answer(outcome),
    )


def _answer(outcome: Measurements) -> str:
    """The open question's answer in words, from the runs."""
    words = []
    for share, buffer in ((1.0, "of the bandwidth-delay product"), (0.1, "of a tenth of it")):
        sizes = {big.sources: big for big in BIG if big.share == share}
        for which in SCALED:
            small, large = (
                outcome.interval(sizes[sources].cell(which), "goodput.all")
                for sources in (SMALL, LARGE)
            )
            if small and large:
                change = 100.0 * (large.mean / small.mean - 1.0)
                words.append(f"{TITLES[which]} with a buffer {buffer} {change:+.1f} %")
    if not words:
        return ""
    return f"Mean goodput of {LARGE} sources against {SMALL}: {'; '.join(words)}."


def _plain(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.mean:.1f}"
