"""The pen with which kinds of traffic draw their figures: `narrows.records.Pen` in this style."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from narrows.report.style import CYCLE, Floats, thin

__all__ = ["FigurePen"]

_MOST_POINTS = 2_000


class FigurePen:
    """Draws on the axes of one figure."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self._colors: dict[str, str] = {}
        self._longest = 0.0

    @property
    def labels(self) -> int:
        """How many labels there are so far."""
        return len(self._colors)

    def cdf(self, label: str, values: Any, of: int | None = None) -> None:
        """A curve that says which share of `of` (or else of the values) is at most x."""
        color = self._color(label)
        ordered = _known(values)
        if len(ordered) == 0:
            return
        ordered = np.sort(ordered)
        x = np.concatenate([[0.0], ordered])
        shares = 100.0 * np.arange(len(x)) / (len(ordered) if of is None else of)
        keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
        self.axes.step(x[keep], shares[keep], where="post", color=color, label=label)
        self._longest = max(self._longest, float(ordered[-1]))
        self.axes.set_xlim(0.0, 1.05 * self._longest if self._longest else 1.0)
        self.axes.set_ylim(0.0, 104.0)

    def series(self, label: str, x: Any, y: Any) -> None:
        """A line through values over time; without a value it breaks."""
        times, values = (np.asarray(column, dtype=np.float64) for column in (x, y))
        self.axes.plot(*thin(times, values), color=self._color(label), label=label)

    def from_zero(self) -> None:
        """Lets the y axis begin at zero and end above all values."""
        highest = float(self.axes.dataLim.y1)
        self.axes.set_ylim(0.0, 1.05 * highest if 0.0 < highest < np.inf else 1.0)

    def _color(self, label: str) -> str:
        return self._colors.setdefault(label, CYCLE[len(self._colors) % len(CYCLE)])


def _known(values: Any) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    known: Floats = column[~np.isnan(column)]
    return known
