"""What figures over time have in common."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from narrows.report import style
from narrows.report.source import dns_start
from narrows.report.style import MUTED
from narrows.results import Run

__all__ = ["over_time"]


def over_time(axes: Axes, runs: Sequence[Run], top: float, title: str, label: str) -> None:
    """Completes axes whose horizontal axis is the time of runs.

    Args:
        axes: The axes with the curves.
        runs: The runs; the first says when DNS started.
        top: The highest value; the vertical axis starts at zero.
        title: The title of the figure.
        label: The label of the vertical axis.
    """
    axes.set_xlim(0.0, max(run.end_s for run in runs))
    style.from_zero(axes, top)
    _mark_dns(axes, dns_start(runs[0]))
    style.name_axes(axes, title, "time (s)", label)


def _mark_dns(axes: Axes, start_s: float | None) -> None:
    """Draws a vertical line at the time of the first DNS query, with its name at the top."""
    if start_s is None:
        return
    low, high = axes.get_xlim()
    if not low < start_s < high:
        return
    axes.axvline(start_s, color=MUTED, linewidth=1.0, zorder=2.5)
    axes.annotate(
        "DNS starts",
        (start_s, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(4, -2),
        textcoords="offset points",
        va="top",
        ha="left",
        fontsize=9,
        color=MUTED,
    )
