"""Ours against the published numbers: rates and delays of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.report.picture import Picture, pictures
from narrows.report.style import BLUE, GREEN, MUTED, ORANGE, below, name_axes, new_figure, styled
from narrows.reproduce.l4s_2022.claims import CLAIMS
from narrows.reproduce.l4s_2022.published import mixed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.reproduce.measurements import Measurements

_COLOURS = {"dualpi2": BLUE, "pie": ORANGE, "fqcodel": GREEN}


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the runs allow."""
    drawn = [
        (
            "rates",
            _scatter(outcome, "rate of", 0.1, "rate, Mbit/s"),
            "Rates of the mixed round trips. A point is one connection of one row; between the "
            "dashed lines, ours is within 10 %.",
        ),
        (
            "delays",
            _scatter(outcome, "delay", 0.15, "queueing delay, ms"),
            "Queueing delays, means and 99th percentiles. Between the dashed lines, ours is within "
            "15 %. DualPI2's L queue is at the lower left.",
        ),
    ]
    return pictures(drawn)


def _scatter(outcome: Measurements, word: str, share: float, label: str) -> Figure | None:
    aqms = {row.cell: row.aqm for row in mixed()}
    figure, axes = new_figure(height=4.6)
    found = False
    for aqm, colour in _COLOURS.items():
        points = [
            (claim.published, interval.mean)
            for claim in CLAIMS
            if claim.published and word in claim.metric and aqms.get(claim.cells[0]) == aqm
            if (interval := outcome.claim_interval(claim)) is not None
        ]
        if points:
            found = True
            axes.plot(*zip(*points, strict=True), "o", markersize=4, color=colour, label=aqm)
    if not found:
        return None
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_xlim()
    for factor, style in ((1.0, "-"), (1.0 - share, "--"), (1.0 + share, "--")):
        axes.plot([low, high], [factor * low, factor * high], style, color=MUTED, linewidth=1)
    axes.set_xlim(low, high)
    name_axes(axes, f"Mixed round trips: {label}", f"published {label}", f"ours, {label}")
    below(figure)
    return figure
