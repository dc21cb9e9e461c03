"""BBR's share by buffer with the model, and its rate over time."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from narrows.report.picture import Picture, pictures
from narrows.report.style import BLUE, MUTED, ORANGE, below, name_axes, new_figure, styled
from narrows.reproduce.ware_2019.cells import (
    BUFFERS,
    BUFFERS_8A,
    MANY,
    PRODUCT,
    RIVALS,
    name,
    name_8a,
)
from narrows.reproduce.ware_2019.claims import PUBLISHED, PUBLISHED_8A
from narrows.reproduce.ware_2019.model import share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.reproduce.measurements import Measurements

_COLOURS = {"cubic": BLUE, "reno": ORANGE, 1: BLUE, 8: ORANGE}


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the runs allow."""
    drawn = [
        (
            "share",
            _share(outcome),
            "What one BBR connection gets beside one of CUBIC or Reno, 10 Mbit/s, 40 ms. Lines: "
            "ours, with the range of the seeds. Crosses: read off the plots of another "
            "reproduction, in Mininet.",
        ),
        (
            "figure-8a",
            _figure_8a(outcome),
            "Figure 8a: BBR's share of 400 s against one CUBIC connection. Dashed: the model of "
            "Ware et al. Crosses: read off another reproduction's plot.",
        ),
        (
            "over-time",
            _over_time(outcome),
            "One BBR connection against sixteen of CUBIC, a buffer of 32 bandwidth-delay products. "
            "BBR gives way for each probe of the shortest round trip.",
        ),
    ]
    return pictures(drawn)


def _share(outcome: Measurements) -> Figure | None:
    if not any(outcome.runs(name(rival, 1)) for rival in RIVALS):
        return None
    figure, axes = new_figure()
    for rival, title in RIVALS.items():
        found = [(buffer, outcome.values(name(rival, buffer), "bbr")) for buffer in BUFFERS]
        found = [(buffer, values) for buffer, values in found if values]
        buffers = [buffer for buffer, _ in found]
        colour = _COLOURS[rival]
        axes.plot(
            buffers, [statistics.fmean(v) for _, v in found], color=colour, label=f"beside {title}"
        )
        axes.fill_between(
            buffers,
            [min(v) for _, v in found],
            [max(v) for _, v in found],
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        axes.plot(
            BUFFERS,
            [bbr for bbr, _ in PUBLISHED[rival]],
            "x",
            color=colour,
            label=f"beside {title}, read off a plot",
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(BUFFERS, [f"{buffer:g}" for buffer in BUFFERS])
    axes.set_ylim(0, 10)
    name_axes(
        axes,
        "One BBR connection beside one of CUBIC or Reno, 240 s",
        f"buffer, in bandwidth-delay products ({PRODUCT:.1f} packets)",
        "goodput of BBR, Mbit/s",
    )
    below(figure)
    return figure


def _figure_8a(outcome: Measurements) -> Figure | None:
    if not outcome.runs(name_8a(1, 1)):
        return None
    figure, axes = new_figure()
    for connections, published in PUBLISHED_8A.items():
        colour = _COLOURS[connections]
        found = [
            (buffer, statistics.fmean(values))
            for buffer in BUFFERS_8A
            if (values := outcome.values(name_8a(connections, buffer), "share"))
        ]
        axes.plot(*zip(*found, strict=True), color=colour, label=f"{connections} BBR")
        model = [share(buffer, connections, 400.0) for buffer in BUFFERS_8A]
        axes.plot(BUFFERS_8A, model, "--", color=colour, label=f"{connections} BBR, model")
        axes.plot(BUFFERS_8A, published, "x", color=colour, label=f"{connections} BBR, read off")
    axes.set_xscale("log", base=2)
    axes.set_xticks(BUFFERS_8A, [f"{buffer:g}" for buffer in BUFFERS_8A])
    axes.set_ylim(0, 1)
    name_axes(
        axes,
        "Figure 8a: BBR's share against one CUBIC connection",
        "buffer, in bandwidth-delay products",
        "share of the link",
    )
    below(figure, 3)
    return figure


def _over_time(outcome: Measurements) -> Figure | None:
    curves = outcome.curves(MANY, "bbr")
    if not curves:
        return None
    figure, axes = new_figure()
    times, rates = curves[0]
    axes.plot(times, rates, color=BLUE, label="in each second")
    axes.axhline(4.0, color=MUTED, linestyle="--", label="40 % of the link, the paper's headline")
    axes.set_ylim(0, 10)
    name_axes(axes, "One BBR against sixteen CUBIC", "time, s", "goodput of BBR, Mbit/s")
    below(figure)
    return figure
