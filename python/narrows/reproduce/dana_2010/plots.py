"""Figures 3 to 8: the three queues against time."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from narrows.report.picture import Picture, pictures
from narrows.report.style import MUTED, below, name_axes, new_figure, styled
from narrows.reproduce.dana_2010.cells import QUEUES, TITLES
from narrows.reproduce.dana_2010.measure import BACK_OFF_S, FULL_S, LOADED_S
from narrows.reproduce.queue_colours import QUEUE_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from narrows.reproduce.claims import Series
    from narrows.reproduce.measurements import Measurements

_COLOURS = {
    "tail": QUEUE_COLOURS["fifo"],
    "red": QUEUE_COLOURS["red"],
    "ecn": QUEUE_COLOURS["red-ecn"],
}

_FIGURES = (
    (
        "figure-3",
        "buffer",
        "packets in router A's buffer",
        "Figure 3: buffer against time. Shaded: from 156 to 192 s, when the paper's Drop Tail is "
        "full. The paper does not print the load; we chose this one so that Drop Tail fills then.",
    ),
    (
        "figure-4",
        "delay",
        "average queueing delay, ms",
        "Figure 4: average queueing delay, of all packets up to that moment. The paper: Drop Tail "
        "above RED+ECN above RED, and the latter two come together.",
    ),
    (
        "figure-5",
        "variation",
        "average delay variation, ms²",
        "Figure 5: delay variation, as the variance of the delay of all packets up to that "
        "moment. The paper: Drop Tail above RED; RED+ECN above RED at first.",
    ),
    (
        "figure-6",
        "drops",
        "packets dropped a second",
        "Figure 6: drop rate, mean over ten seconds. The paper: RED starts about the second "
        "minute, and drops fewer than Drop Tail in all; ours drops more.",
    ),
    (
        "figure-7",
        "utilisation",
        "utilisation of the DS1 link, %",
        "Figure 7: utilisation of the link out of router A, mean over ten seconds. The paper: "
        "lowest with RED, and raised by ECN.",
    ),
    (
        "figure-8",
        "cpu",
        "router CPU, %",
        "Figure 8: router A's processor: in the simulator by a model that counts what is done to "
        "each packet, on a guest kernel measured. The paper: it rises when a queue starts "
        "dropping, and is about the same afterwards.",
    ),
)
_SMOOTHED = {"drops": 10, "utilisation": 10, "cpu": 10, "buffer": 1}


@styled
def plots(outcome: Measurements) -> list[Picture]:
    """The plots that the runs allow."""
    return pictures(
        (name, _against_time(outcome, curve, label, caption.split(". ")[0]), caption)
        for name, curve, label, caption in _FIGURES
    )


def _against_time(outcome: Measurements, curve: str, label: str, title: str) -> Figure | None:
    curves = {queue: outcome.curves(queue, curve) for queue in QUEUES}
    if not any(curves.values()):
        return None
    figure, axes = new_figure(3.7, 8.2)
    for queue, found in curves.items():
        if not found:
            continue
        # This draws one run, and the band of the others; a mean would hide rises and falls.
        width = _SMOOTHED.get(curve, 1)
        times, values = _shown(_smooth(found[0], width))
        low, high = _band([_smooth(series, width) for series in found], times)
        axes.fill_between(times, low, high, color=_COLOURS[queue], alpha=0.18, linewidth=0)
        # Curves are not clipped at the axis, where a queue without drops would hardly be visible.
        axes.plot(
            times,
            values,
            color=_COLOURS[queue],
            linewidth=1.6,
            label=TITLES[queue],
            clip_on=False,
            zorder=3,
        )
    full = "in the paper, Drop Tail is full"
    axes.axvspan(FULL_S, BACK_OFF_S, color=MUTED, alpha=0.16, linewidth=0, label=full)
    axes.set_xlim(_FIRST_S, None)
    axes.set_ylim(bottom=0)
    name_axes(axes, title, "time, s (line: one seed; band around it: all seeds)", label)
    below(figure, 4)
    return figure


_FIRST_S = LOADED_S - 20.0
"""The start of the axis, shortly before the load."""


def _shown(series: Series) -> Series:
    """The part of a curve that the axis shows."""
    kept = [(time, value) for time, value in zip(*series, strict=True) if time >= _FIRST_S]
    return [time for time, _ in kept], [value for _, value in kept]


def _smooth(series: Series, width: int) -> Series:
    """Means over this many seconds."""
    times, values = series
    if width == 1:
        return series
    starts = range(0, len(values) - width + 1, width)
    return (
        [times[start + width - 1] for start in starts],
        [statistics.fmean(values[start : start + width]) for start in starts],
    )


def _band(found: list[Series], times: list[float]) -> tuple[list[float], list[float]]:
    """Smallest and largest value of all runs at each of the times."""
    by_time = [dict(zip(*series, strict=True)) for series in found]
    columns = [[known[t] for known in by_time if t in known] for t in times]
    return [min(column) for column in columns], [max(column) for column in columns]
