"""Figures 3 and 5, and what each DSCP gets."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from narrows.report.picture import Picture, pictures
from narrows.report.style import BLUE, CYCLE, below, name_axes, new_figure, styled
from narrows.reproduce.hoiland_jorgensen_2018.published import (
    CLASSES,
    CONNECTIONS,
    RRUL,
    SHARES,
    STREAM_TCP,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.reproduce.measurements import Measurements


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the runs allow."""
    drawn = [
        (
            "tins",
            _tins(outcome),
            "What four uploads with different DSCPs get of 10 Mbit/s. Bars: ours, the mean over "
            "the seeds. Crosses: medians of the authors' data.",
        ),
        (
            "figure-3",
            _isolation(outcome),
            "Figure 3: the share of each connection, by isolation. Bars: ours. Crosses: the ideal.",
        ),
        (
            "figure-5",
            _stream(outcome),
            "Figure 5: the one-way delay of a stream of 2 Mbit/s with the DSCP EF. 32 uploads "
            "start at 5 s. The first seed.",
        ),
    ]
    return pictures(drawn)


def _bars(
    title: str, y: str, groups: dict[str, tuple[list[float], list[float]]], names: list[str]
) -> Figure:
    """Draws bars of ours and crosses of the published values, by group."""
    figure, axes = new_figure()
    width = 0.8 / len(names)
    for at, name in enumerate(names):
        xs = [group + (at + 0.5) * width - 0.4 for group in range(len(groups))]
        colour = CYCLE[at]
        axes.bar(xs, [ours[at] for ours, _ in groups.values()], width, color=colour, label=name)
        published = [expected[at] for _, expected in groups.values()]
        label = "published" if at == 0 else None
        axes.plot(xs, published, "x", color="black", label=label)
    axes.set_xticks(range(len(groups)), list(groups))
    name_axes(axes, title, "", y)
    below(figure, 6)
    return figure


def _tins(outcome: Measurements) -> Figure | None:
    groups = {
        row.queue: (
            [statistics.fmean(outcome.values(row.cell, f"up-{name}")) for name in CLASSES],
            list(row.classes),
        )
        for row in RRUL
        if row.up_mbits == 10 and outcome.runs(row.cell)
    }
    names = [name.upper() for name in CLASSES]
    title = "Four uploads with different DSCPs"
    return _bars(title, "goodput, Mbit/s", groups, names) if groups else None


def _isolation(outcome: Measurements) -> Figure | None:
    groups = {}
    for mode, ideal in SHARES.items():
        cell = f"isolation-{mode}"
        if outcome.runs(cell):
            rates = [statistics.fmean(outcome.values(cell, pair)) for pair in CONNECTIONS]
            whole = sum(rates)
            each = [
                100 * rate / whole / count
                for rate, count in zip(rates, CONNECTIONS.values(), strict=True)
            ]
            groups[mode] = (each, list(ideal))
    names = [pair.replace("-", " to ") for pair in CONNECTIONS]
    title = "Figure 3: shares of six connections"
    return _bars(title, "share of each, %", groups, names) if groups else None


def _stream(outcome: Measurements) -> Figure | None:
    found = {
        queue: curves[0]
        for queue in STREAM_TCP
        if (curves := outcome.curves(f"stream-{queue}", "delay"))
    }
    if not found:
        return None
    figure, axes = new_figure()
    for colour, (queue, (times, delays)) in zip(CYCLE, found.items(), strict=False):
        axes.plot(times, delays, color=colour, label=queue)
    axes.axvline(5.0, color=BLUE, linestyle=":", linewidth=1)
    axes.set_ylim(0)
    name_axes(axes, "Figure 5: a stream beside 32 uploads", "time, s", "one-way delay, ms")
    below(figure)
    return figure
