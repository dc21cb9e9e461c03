"""Figures 1 to 4 from the lab's pairs: histograms, before and after, and TCP's time against UDP's.

There is also a plot of each cause that could put a server's ratios between 2 and 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from narrows.report.picture import Picture
from narrows.report.style import BLUE, GREEN, ORANGE, VERMILION, new_figure, styled
from narrows.reproduce.wijnen_2012.cells import (
    FARTHER,
    FIXED,
    LATE,
    NEW,
    OLD,
    OLD_10,
    OLD_100,
    TODAY,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.reproduce.measurements import Measurements

WIDER = 5
"""How many bins of the histogram are drawn as one, because the lab has hundreds of pairs and the
paper tens of thousands."""


_PAIRS = f"pairs in each {WIDER * 0.01:g} of ratio, %"


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the measurements allow."""
    wanted = (
        (
            "figure-4",
            "Figure 4: how often each ratio occurred, in percent of the pairs (bins of 0.05)",
            _histograms(
                outcome,
                "How often each ratio occurred, by kind of server",
                {
                    "servers of today": (tuple(TODAY), BLUE),
                    "two writes": ((OLD,), VERMILION),
                    "one writev": ((NEW,), GREEN),
                },
                5.0,
            ),
        ),
        (
            "figure-2",
            "Figure 2: ten connections at most, and a hundred",
            _histograms(
                outcome,
                "How often each ratio occurred, by the server's limit of connections",
                {"ten": ((OLD_10,), VERMILION), "a hundred": ((OLD_100,), BLUE)},
                10.0,
            ),
        ),
        (
            "c-root",
            "TCP's time against UDP's at each vantage point: what causes of ratios between 2 and 3 "
            "look like",
            _lines(outcome),
        ),
    )
    causes = tuple(
        (f"c-root-{name}", f"C-root, if {says}", _cause(outcome, cells))
        for name, (cells, says) in CAUSES.items()
    )
    return [
        Picture(name, figure, caption, caption)
        for name, caption, figure in (*wanted, *causes)
        if figure is not None
    ]


def _histograms(
    outcome: Measurements, title: str, groups: dict[str, tuple[tuple[str, ...], str]], most: float
) -> Figure | None:
    figure, axes = new_figure(3.8, 7.0)
    drawn = False
    for label, (cells, colour) in groups.items():
        curves = [curve for cell in cells for curve in outcome.curves(cell, "histogram")]
        if not curves:
            continue
        drawn = True
        mean = np.mean([percent for _, percent in curves], axis=0)
        whole = len(mean) - len(mean) % WIDER
        bins = mean[:whole].reshape(-1, WIDER).sum(axis=1)
        edges = np.arange(len(bins) + 1) * WIDER * 0.01
        axes.stairs(bins, edges, color=colour, label=label, linewidth=1.3)
    if not drawn:
        return None
    axes.set_xlim(0, most)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time over TCP / time over UDP")
    axes.set_ylabel(_PAIRS)
    axes.set_title(title)
    axes.legend()
    return figure


CAUSES = {
    "a": (
        (FIXED,),
        "it takes 30 ms longer over TCP: the points lie on a line beside that of 2, and the ratio "
        "falls with the distance",
    ),
    "b": (
        (FARTHER,),
        "TCP is answered a quarter farther away: the points lie on a steeper line through zero",
    ),
    "c": (
        (NEW, OLD),
        "servers of both kinds stand behind its address: the points lie on the lines of 2 and 3, "
        "and none between",
    ),
    "d": (
        (LATE,),
        "acknowledgements come late: the points lie 40 ms above the line of 3, and the ratio is "
        "above 3",
    ),
}
"""For each letter, the cells, and what distinguishes the cause from the others."""


def _cause(outcome: Measurements, cells: tuple[str, ...]) -> Figure | None:
    """A histogram of the ratios, and TCP's time against UDP's at each vantage point."""
    measured = [curve for cell in cells for curve in outcome.curves(cell, "histogram")]
    points = [curve for cell in cells for curve in outcome.curves(cell, "udp_tcp")]
    if not measured or any(not outcome.curves(cell, "udp_tcp") for cell in cells):
        return None
    figure, _ = new_figure(3.0, 7.6)
    figure.clear()
    left, right = figure.subplots(1, 2)
    mean = np.mean([percent for _, percent in measured], axis=0)
    bins = mean[: len(mean) - len(mean) % WIDER].reshape(-1, WIDER).sum(axis=1)
    left.stairs(bins, np.arange(len(bins) + 1) * WIDER * 0.01, color=BLUE, fill=True)
    left.set_xlim(1, 6)
    left.set_xlabel("time over TCP / time over UDP")
    left.set_ylabel(_PAIRS)
    farthest = max(udp for udps, _ in points for udp in udps)
    for trips, style in ((2, "--"), (3, ":")):
        right.plot(
            [0, farthest],
            [0, trips * farthest],
            color="0.5",
            linewidth=1,
            linestyle=style,
            label=f"{trips} round trips",
        )
    for number, (udp, tcp) in enumerate(points):
        right.plot(
            udp,
            tcp,
            color=VERMILION,
            marker="o",
            markersize=3,
            linestyle="",
            label="a vantage point" if number == 0 else None,
        )
    right.set_xlim(left=0)
    right.set_ylim(bottom=0)
    right.set_xlabel("time over UDP, ms")
    right.set_ylabel("time over TCP, ms")
    right.legend()
    return figure


def _lines(outcome: Measurements) -> Figure | None:
    figure, axes = new_figure(4.2, 7.0)
    drawn = False
    for cell, label, colour in (
        (NEW, "one write", BLUE),
        (OLD, "two writes", VERMILION),
        (FIXED, "one write, and 30 ms over TCP", GREEN),
        (FARTHER, "one write, TCP a quarter farther away", ORANGE),
        (LATE, "two writes, acknowledged late", "0.4"),
    ):
        curves = outcome.curves(cell, "udp_tcp")
        if not curves:
            continue
        drawn = True
        for number, (udp, tcp) in enumerate(curves):
            axes.plot(
                udp,
                tcp,
                color=colour,
                marker="o",
                markersize=2.5,
                linestyle="",
                label=label if number == 0 else None,
            )
    if not drawn:
        return None
    axes.set_title("Median times of each vantage point (a dot)")
    axes.set_xlabel("time over UDP, ms")
    axes.set_ylabel("time over TCP, ms")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure
