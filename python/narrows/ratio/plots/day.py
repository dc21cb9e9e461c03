"""The ratio over the day: the number of pairs in each half hour and 0.05 of ratio."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np

from narrows.ratio.analysis import Group
from narrows.ratio.density import over_the_day
from narrows.records.plotted import Axis
from narrows.report.drawing import Curve, Drawing, Level

_STEP_S = 1800.0
_WIDTH = 0.05
_CLASSES = ((1, "sky", "1 pair"), (3, "blue", "2 to 3"), (10, "vermilion", "4 to 10"))
"""Cells with up to so many pairs."""
_MANY = ("ink", "more than 10")


def over_day_plot(group: Group, top: float = 6.0) -> Drawing:
    """A point for each half hour and 0.05 of ratio that has pairs, coloured by their number."""
    seconds = group.table["started_s"].to_numpy()
    start = math.floor(float(seconds.min()) / 86_400.0) * 86_400.0
    times, ratios, counts = over_the_day(seconds - start, group.ratios, _STEP_S, _WIDTH)
    counts = counts[:, ratios < top]
    curves = []
    least = 1
    for most, colour, words in (*_CLASSES, (math.inf, *_MANY)):
        rows, columns = np.nonzero((counts >= least) & (counts <= most))
        least = int(most) + 1 if math.isfinite(most) else least
        if len(rows):
            x, y = times[rows] + _STEP_S / 2.0, ratios[columns] + _WIDTH / 2.0
            curves.append(Curve(words, colour, x, y, "points", 3.0))
    used = np.flatnonzero(counts.sum(axis=1))
    first, last = float(times[used[0]]), float(times[used[-1]]) + _STEP_S
    year = dt.datetime.fromtimestamp(start + first, dt.UTC).year
    return Drawing(
        f"{group.label}: pairs in half an hour and 0.05 of ratio",
        Axis(f"UTC, {year}", ends=(first, last), ticks=_ticks(start, first, last)),
        Axis("TCP / UDP", ends=(0.0, top)),
        curves=curves,
        levels=(Level("y", 2.0, "", dash=True), Level("y", 3.0, "", dash=True)),
        legend="pairs",
        height=3.6,
    )


def _ticks(start: float, first: float, last: float) -> list[tuple[float, str]]:
    """Round hours with their day at midnight; for more than four days, days."""
    hours = (last - first) / 3600.0
    step = next((n for n in (1, 2, 3, 6, 12) if hours <= 8 * n), 24 * math.ceil(hours / 192.0))
    found = []
    for hour in range(0, math.ceil(last / 3600.0) + 1, step):
        if first <= hour * 3600.0 <= last:
            at = dt.datetime.fromtimestamp(start + hour * 3600.0, dt.UTC)
            found.append((hour * 3600.0, f"{at:%m-%d}" if at.hour == 0 else f"{at:%H:%M}"))
    return found
