"""What plots over time have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from narrows.report import marks, style
from narrows.report.source import dns_start
from narrows.report.style import Floats
from narrows.results import Run


def averages(axes: Axes, ends: Floats, values: Floats, **looks: Any) -> float:
    """Draws averages over intervals, such as goodput, as steps; returns the highest, or 0.

    Args:
        axes: The axes.
        ends: The start of the first interval, then the end of each, in seconds.
        values: The averages.
        looks: Colour, label and width, as Matplotlib has them.
    """
    # A value holds from the end of the previous interval.
    times, shown = style.thin(ends[1:], values)
    axes.plot(
        np.concatenate([ends[:1], times]),
        np.concatenate([shown[:1], shown]) if len(shown) else ends[:1],
        drawstyle="steps-pre",
        **looks,
    )
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0


def as_steps(ends: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Averages over intervals as a curve that is drawn with `steps-pre`.

    Args:
        ends: The start of the first interval, then the end of each.
        values: The averages.
    """
    return ends[: len(values) + (len(values) > 0)], np.concatenate([values[:1], values])


def over_time(axes: Axes, runs: Sequence[Run], top: float, title: str, label: str) -> None:
    """Completes axes whose horizontal axis is the time of runs.

    Args:
        axes: The axes with the curves.
        runs: The runs; the first determines when DNS started.
        top: The highest value; the vertical axis starts at zero.
        title: The title of the plot.
        label: The label of the vertical axis.
    """
    axes.set_xlim(0.0, max(run.end_s for run in runs))
    style.from_zero(axes, top)
    if runs[0].window is not None:
        for at, name in zip(runs[0].window, ("measured from here", "to here"), strict=True):
            _mark(axes, at, name)
    _mark(axes, dns_start(runs[0]), "DNS starts")
    style.name_axes(axes, title, "time (s)", label)


def _mark(axes: Axes, at_s: float | None, name: str) -> None:
    """Marks a moment within the run."""
    low, high = axes.get_xlim()
    if at_s is not None and low < at_s < high:
        marks.moment(axes, at_s, name)
