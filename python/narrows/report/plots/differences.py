"""A forest plot: how much the metrics of one case differ from another's, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from narrows.report import style
from narrows.report.style import BLUE, INK, MUTED, VERMILION

LINEAR_TO = 100.0
"""The percentage up to which the axis is linear if a change is larger than `WIDE`."""
WIDE = 300.0


@dataclass(frozen=True)
class Change:
    """A metric's relative difference."""

    section: str
    """The section to which the metric belongs."""
    label: str
    percent: float
    low: float
    """Lower end of the 95 % interval, in percent."""
    high: float
    word: str = ""
    """`better` or `worse`; empty if neither is known."""


@style.styled
def differences(changes: Sequence[Change], title: str) -> Figure:
    """Draws a line for each metric, below its section, with its change in percent and interval.

    Blue is lower, vermilion is higher, and grey is not clearly different from zero. A word at the
    right says whether a change is better or worse. If a change is very large, the axis is
    logarithmic beyond 100 %.
    """
    sections = list(dict.fromkeys(change.section for change in changes))
    lines: list[Change | str] = []
    for section in sections:
        lines += [section, *(change for change in changes if change.section == section)]
    figure, axes = style.new_figure(height=1.4 + 0.23 * len(lines))
    for at, change in enumerate(lines):
        if isinstance(change, str):
            continue
        color = BLUE if change.high < 0 else VERMILION if change.low > 0 else MUTED
        axes.plot([change.low, change.high], [at, at], color=color, linewidth=1.8)
        axes.plot([change.percent], [at], marker="o", markersize=4.5, color=color)
        axes.annotate(
            change.word,
            (1.0, at),
            xycoords=("axes fraction", "data"),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
    axes.axvline(0.0, color=INK, linewidth=1.0)
    names = [line if isinstance(line, str) else line.label for line in lines]
    for label, line in zip(axes.set_yticks(range(len(lines)), names), lines, strict=True):
        label.label1.set_fontsize(9)
        label.label1.set_fontweight("bold" if isinstance(line, str) else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    widest = max((abs(x) for c in changes for x in (c.low, c.high, c.percent)), default=1.0)
    if widest > WIDE:
        axes.set_xscale("symlog", linthresh=LINEAR_TO, linscale=1.0)
        top = LINEAR_TO
        ticks = [-LINEAR_TO, -50.0, 0.0, 50.0, LINEAR_TO]
        while top < widest:
            top *= 10.0
            ticks = [-top, *ticks, top]
        if widest < 10.0 * LINEAR_TO:
            ticks = [-3.0 * LINEAR_TO, *ticks, 3.0 * LINEAR_TO]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+g}" if x else "0"))
    low = min([0.0, *(min(c.low, c.percent) for c in changes)])
    high = max([0.0, *(max(c.high, c.percent) for c in changes)])
    margin = 0.06 * (high - low) or 1.0
    axes.set_xlim(low - margin, high + margin)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold")
    beyond = f"\nlogarithmic beyond {LINEAR_TO:g} %" if widest > WIDE else ""
    axes.set_xlabel(f"difference as a share of the first (%), with 95 % interval{beyond}")
    return figure
