"""Curves of a case that was run with several seeds: their mean, and a thin line for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from narrows.report import style
from narrows.report.style import Floats

Curve = tuple[Floats, Floats]
"""Times in ascending order, and the values at them."""


def draw(
    axes: Axes, curves: Sequence[Curve], label: str, color: str, drawstyle: Any = "default"
) -> float:
    """Draws the mean of the curves with its label, and each of several thinly behind it.

    Returns:
        The highest value of all; 0 without any.
    """
    times, values = mean_of(curves)
    axes.plot(*style.thin(times, values), color=color, label=label, drawstyle=drawstyle)
    if len(curves) > 1:
        for one in curves:
            style.faint(axes, *style.thin(*one), color, drawstyle)
    known = np.concatenate([values[~np.isnan(values)] for _, values in curves])
    return float(known.max()) if len(known) else 0.0


def mean_of(curves: Sequence[Curve]) -> Curve:
    """The mean of curves, at the times of the first and as long as all of them last.

    Where some curves have no value, it is the mean of the others. A curve with values at other
    times is interpolated.
    """
    times, values = curves[0]
    if len(curves) == 1:
        return times, values
    last = min((float(t[-1]) for t, _ in curves if len(t)), default=-np.inf)
    grid = times[times <= last]
    table = np.asarray([_at(grid, *one) for one in curves])
    counts = np.sum(~np.isnan(table), axis=0)
    sums = np.nansum(table, axis=0)
    mean = np.full(len(grid), np.nan)
    np.divide(sums, counts, out=mean, where=counts > 0)
    return grid, mean


def _at(grid: Floats, times: Floats, values: Floats) -> Floats:
    if np.array_equal(times[: len(grid)], grid):
        return values[: len(grid)]
    if len(times) == 0:
        return np.full(len(grid), np.nan)
    return np.asarray(np.interp(grid, times, values), dtype=np.float64)
