"""Figures 4 to 6: processor time against the rate, of the kernel, of the server, and of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.report.picture import Picture
from narrows.report.style import BLUE, GREEN, MUTED, ORANGE, VERMILION, new_figure, styled
from narrows.reproduce.hayes_2010 import published
from narrows.reproduce.hayes_2010.cells import TITLES
from narrows.reproduce.hayes_2010.published import RATES, TOP
from narrows.reproduce.statistics import t_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.reproduce.measurements import Measurements

COLOURS = {"udp": BLUE, "tcp": VERMILION, "gateway": GREEN, "gateway-axfr": ORANGE}

_FIGURES: tuple[tuple[int, str, str, dict[str, float]], ...] = (
    (4, "kernel", "of the kernel", published.KERNEL_S),
    (5, "server", "of BIND", {}),
    (6, "total", "of kernel and BIND", published.TOTAL_S),
)


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the measurements allow."""
    shown = []
    for number, part, whose, printed in _FIGURES:
        figure = _curves(outcome, number, part, whose, printed)
        if figure is not None:
            caption = (
                f"Figure {number}: processor time {whose} in ten seconds against the rate of "
                "queries. Means over rounds with their 95 % intervals."
            )
            if printed:
                caption += f" Diamonds: what the paper prints for {TOP} queries a second."
            name = f"figure-{number}"
            shown.append(Picture(name, figure, caption.split(". ")[0], caption))
    return shown


def _curves(
    outcome: Measurements, number: int, part: str, whose: str, printed: dict[str, float]
) -> Figure | None:
    figure, axes = new_figure(4.2, 7.0)
    drawn = False
    for cell, title in TITLES.items():
        found = {rate: outcome.values_at(cell, f"{part}_{rate}") for rate in RATES}
        found = {rate: values for rate, values in found.items() if values}
        if not found:
            continue
        drawn = True
        intervals = [t_interval(values) for values in found.values()]
        halves = [i.half_width if i.count > 1 else 0.0 for i in intervals]
        axes.errorbar(
            list(found),
            [i.mean for i in intervals],
            yerr=halves,
            color=COLOURS[cell],
            marker="o",
            markersize=3.5,
            linewidth=1.4,
            capsize=2.5,
            label=title,
            linestyle="--" if cell == "gateway-axfr" else "-",
        )
        if cell in printed:
            axes.plot(
                [TOP], [printed[cell]], marker="D", mfc="none", color=COLOURS[cell], linestyle=""
            )
    if not drawn:
        return None
    if printed:
        axes.plot(
            [], [], marker="D", mfc="none", color=MUTED, linestyle="", label="printed in the paper"
        )
    axes.set_title(f"Figure {number}: processor time {whose}")
    axes.set_xlabel("queries a second")
    axes.set_ylabel(f"processor time {whose}, s in 10 s")
    axes.set_xlim(0, TOP + 25)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure
