"""Figures 5 to 8 in the paper's form, and a plot on the authors' open question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from narrows.report.picture import Picture, pictures
from narrows.report.style import BLUE, GREEN, MUTED, PURPLE, VERMILION, styled
from narrows.reproduce.kantawala_2002.cells import (
    HOPS,
    ROUND_TRIPS,
    SCALED,
    SINGLE,
    Topology,
    name,
)
from narrows.reproduce.kantawala_2002.queues import QUEUES, TITLES
from narrows.reproduce.kantawala_2002.scaling import (
    BIG,
    BIG_SIZES,
    PANELS,
    POINTS,
    SHARES,
    WINDOWS,
    Big,
)
from narrows.reproduce.queue_colours import QUEUE_COLOURS

if TYPE_CHECKING:
    from narrows.reproduce.measurements import Measurements
    from narrows.reproduce.statistics import Interval

_LOOKS = {
    "droptail": (QUEUE_COLOURS["fifo"], "o", "-"),
    "red": (QUEUE_COLOURS["red"], "s", "-"),
    "blue": (QUEUE_COLOURS["blue"], "^", "-"),
    "drr": (QUEUE_COLOURS["drr"], "D", "--"),
    "tdrr": (QUEUE_COLOURS["tdrr"], "v", "--"),
    "qsdrr": (QUEUE_COLOURS["qsdrr"], "P", "--"),
}
"""Colour, marker and line of each queue; lines are dashed for per-flow queues."""


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the runs allow."""
    pairs = (
        (
            "figure-5",
            SINGLE,
            ("goodput.all", "mean goodput of a flow, Mbit/s", None),
            ("completion.all", "mean completion time of a burst, s", None),
            "Figure 5: 500 short-burst TCP flows over a single bottleneck. "
            "Left, higher is better; right, lower is better. The paper: Tail Drop, RED and Blue "
            "lie on each other, the DRR family (dashed) is better everywhere.",
        ),
        (
            "figure-6",
            ROUND_TRIPS,
            ("ratio", "goodput ratio, 200 ms / 40 ms flows", 1.0),
            ("ratio_completion", "completion time ratio, 200 ms / 40 ms flows", 1.0),
            "Figure 6: 500 flows with a round trip of 200 ms beside 500 with 40 ms. "
            "The nearer to one, the fairer. The paper: QSDRR and TDRR near one, Blue worst.",
        ),
        (
            "figure-7",
            HOPS,
            ("ratio", "goodput ratio, end-to-end / cross", 1.0),
            ("ratio_completion", "completion time ratio, end-to-end / cross", 1.0),
            "Figure 7: 500 flows over three bottlenecks beside 500 cross-traffic flows on each. "
            "The nearer to one, the fairer. The paper: about 0.3 without DRR; TDRR best.",
        ),
    )
    drawn = [
        (name_, _against_buffer(outcome, topology, [left, right], caption), caption)
        for name_, topology, left, right, caption in pairs
    ]
    drawn.append(
        (
            "figure-8",
            _scaling(outcome),
            "Figure 8: mean goodput as a share of the fair share, with the buffer at the "
            "bandwidth-delay product. Each line keeps its fair-share window; the paper says that "
            "all are flat. Hollow marks lie outside the figure's own range (K12).",
        )
    )
    drawn.append(
        (
            "open-question",
            _large(outcome),
            "The authors' open question: from 10 sources to 20,000 over 10 Gbit/s, at 0.5 Mbit/s "
            "a source and 100 ms. A small scale's result carries over where a line is flat from "
            "1000 sources on, the largest size that the paper could simulate.",
        )
    )
    return pictures(drawn)


def _against_buffer(
    outcome: Measurements,
    topology: Topology,
    sides: list[tuple[str, str, float | None]],
    caption: str,
) -> Figure | None:
    if not any(outcome.runs(name(topology.name, q, n)) for q in QUEUES for n in topology.limits):
        return None
    figure = Figure(figsize=(9.2, 4.5), layout="constrained")
    _title(figure, caption.split(". ")[0])
    for axes, (value, label, ideal) in zip(
        figure.subplots(1, len(sides), squeeze=False)[0], sides, strict=True
    ):
        for which in QUEUES:
            points = [
                (limit, interval)
                for limit in topology.limits
                if (interval := outcome.interval(name(topology.name, which, limit), value))
            ]
            colour, marker, line = _LOOKS[which]
            _line(axes, points, colour, marker, line, TITLES[which])
        if ideal is not None:
            axes.axhline(ideal, color=MUTED, linewidth=0.9, linestyle=":")
        _log_axis(axes, topology.limits, "buffer, packets")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(QUEUES), fontsize=9)
    return figure


def _title(figure: Figure, text: str) -> None:
    """A title above all axes."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=12.5, fontweight="bold")


def _line(
    axes: Axes,
    points: Sequence[tuple[float, Interval]],
    colour: str,
    marker: str,
    line: str,
    label: str | None,
    *,
    hollow: frozenset[float] = frozenset(),
) -> None:
    """A line through means with their 95 % intervals."""
    if not points:
        return
    xs = [x for x, _ in points]
    halves = [i.half_width if i.count > 1 else 0.0 for _, i in points]
    axes.errorbar(
        xs,
        [interval.mean for _, interval in points],
        yerr=halves,
        color=colour,
        linestyle=line,
        linewidth=1.5,
        elinewidth=0.9,
        capsize=2.0,
        label=label,
    )
    for x, interval in points:
        axes.plot(
            [x],
            [interval.mean],
            marker,
            color=colour,
            markersize=4.5,
            markerfacecolor="white" if x in hollow else colour,
        )


def _log_axis(axes: Axes, ticks: tuple[float, ...], label: str) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.tick_params(axis="x", labelsize=8.5)
    axes.set_xlabel(label)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


_WINDOW_LOOKS = {2: (BLUE, "o"), 10: (VERMILION, "s"), 50: (GREEN, "^"), 100: (PURPLE, "D")}


def _scaling(outcome: Measurements) -> Figure | None:
    if not any(outcome.runs(point.cell(which)) for point in POINTS for which in SCALED):
        return None
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    _title(figure, "Figure 8: mean goodput as a share of the fair share")
    grid = figure.subplots(len(SCALED), len(PANELS), sharey=True, squeeze=False)
    for row, which in zip(grid, SCALED, strict=True):
        for axes, (panel, label) in zip(row, PANELS.items(), strict=True):
            seen: set[float] = set()
            for window in WINDOWS:
                points = sorted(
                    (p for p in POINTS if p.panel == panel and p.window == window),
                    key=lambda point: point.at,
                )
                shown = [
                    (point.at, interval)
                    for point in points
                    if (interval := outcome.interval(point.cell(which), "fair_share"))
                ]
                seen |= {x for x, _ in shown}
                colour, marker = _WINDOW_LOOKS[window]
                hollow = frozenset(point.at for point in points if point.wide)
                _line(axes, shown, colour, marker, "-", f"{window} packets", hollow=hollow)
            _log_axis(axes, tuple(sorted(seen)), label)
            axes.tick_params(axis="x", labelrotation=45)
            axes.set_ylim(0, 105)
        row[0].set_ylabel(f"{TITLES[which]}\ngoodput, % of fair share")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(WINDOWS),
        title="fair-share window (hollow: outside the paper's range)",
        fontsize=9,
    )
    return figure


_BIG_LOOKS = {
    ("droptail", 1.0): (QUEUE_COLOURS["fifo"], "o", "-", "Tail Drop, bandwidth-delay product"),
    ("droptail", 0.1): (QUEUE_COLOURS["fifo"], "o", ":", "Tail Drop, a tenth of it"),
    ("qsdrr", 1.0): (QUEUE_COLOURS["qsdrr"], "P", "-", "QSDRR, bandwidth-delay product"),
    ("qsdrr", 0.1): (QUEUE_COLOURS["qsdrr"], "P", ":", "QSDRR, a tenth of it"),
}


def _large(outcome: Measurements) -> Figure | None:
    if not any(outcome.runs(big.cell(which)) for big in BIG for which in SCALED):
        return None
    figure = Figure(figsize=(9.4, 6.8), layout="constrained")
    _title(figure, "The authors' open question: from 10 sources to 20,000")
    sizes = {(big.sources, big.share): big for big in BIG}
    sides = (
        ("fair_share", "goodput, % of fair share"),
        ("completion.all", "mean completion time of a burst, s"),
        ("cpu_s_per_100_s", "processor time for 100 s, s"),
        ("peak_mb", "peak memory of the process, MB"),
    )
    for axes, (value, label) in zip(figure.subplots(2, 2).flat, sides, strict=True):
        for (which, share), (colour, marker, line, title) in _BIG_LOOKS.items():
            bigs: list[Big] = [sizes[sources, share] for sources in BIG_SIZES]
            points = [
                (big.sources, interval)
                for big in bigs
                if (interval := outcome.interval(big.cell(which), value))
            ]
            _line(axes, points, colour, marker, line, title)
        _log_axis(axes, BIG_SIZES, "sources")
        if value == "cpu_s_per_100_s":
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_ylabel(label)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(SHARES), fontsize=9)
    return figure
