"""The pen with which kinds of traffic draw plots: it implements `narrows.records.Pen`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from narrows.report import seeds, style
from narrows.report.style import CYCLE, Floats, thin

_MOST_POINTS = 2_000


class PlotPen:
    """Draws on the axes of one plot."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self._colors: dict[str, str] = {}
        self._longest = 0.0

    @property
    def labels(self) -> int:
        """The number of labels so far."""
        return len(self._colors)

    def cdf(self, label: str, values: Any, of: int | None = None) -> None:
        """Draws the share of `of` (by default, of the values) that is at most x, as a curve."""
        color = self.color(label)
        ordered = np.sort(_known(values))
        if len(ordered) == 0:
            return
        self.axes.step(*_shares(ordered, of), where="post", color=color, label=label)
        self._end_at(float(ordered[-1]))

    def series(self, label: str, x: Any, y: Any) -> None:
        """Draws a line through values over time, with a gap where a value is missing."""
        times, values = (np.asarray(column, dtype=np.float64) for column in (x, y))
        self.axes.plot(*thin(times, values), color=self.color(label), label=label)

    def from_zero(self) -> None:
        """Makes the y axis begin at zero and end above all values."""
        highest = float(self.axes.dataLim.y1)
        self.axes.set_ylim(0.0, 1.05 * highest if 0.0 < highest < np.inf else 1.0)

    def color(self, label: str) -> str:
        """The colour of a label."""
        return self._colors.setdefault(label, CYCLE[len(self._colors) % len(CYCLE)])

    def _end_at(self, longest: float) -> None:
        self._longest = max(self._longest, longest)
        self.axes.set_xlim(0.0, 1.05 * self._longest if self._longest else 1.0)
        self.axes.set_ylim(0.0, 104.0)


class SeedsPen(PlotPen):
    """Draws several seeds: a thin curve for each, and one for all seeds of a label together.

    Draw with it once for each seed, and then call `finish`.
    """

    def __init__(self, axes: Axes) -> None:
        super().__init__(axes)
        self._cdfs: dict[str, list[tuple[Floats, int]]] = {}
        self._series: dict[str, list[seeds.Curve]] = {}

    def cdf(self, label: str, values: Any, of: int | None = None) -> None:
        """The curve of one seed, which `finish` draws."""
        self.color(label)
        known = np.sort(_known(values))
        self._cdfs.setdefault(label, []).append((known, len(known) if of is None else of))
        if len(known):
            self._end_at(float(known[-1]))

    def series(self, label: str, x: Any, y: Any) -> None:
        """The line of one seed, which `finish` draws."""
        self.color(label)
        times, values = (np.asarray(column, dtype=np.float64) for column in (x, y))
        if len(times):
            self._series.setdefault(label, []).append((times, values))
        else:
            super().series(label, x, y)

    def finish(self) -> None:
        """Draws a curve for all seeds together, and a thin one for each if there are several."""
        ends = self.axes.get_xlim()
        for label, each in self._cdfs.items():
            together = np.sort(np.concatenate([values for values, _ in each]))
            if len(together) == 0:
                continue
            curve = _shares(together, sum(of for _, of in each))
            self.axes.step(*curve, where="post", color=self.color(label), label=label)
            for values, of in each if len(each) > 1 else ():
                if len(values):
                    style.faint(self.axes, *_shares(values, of), self.color(label), "steps-post")
        if self._cdfs:
            self.axes.set_xlim(ends)
        for label, curves in self._series.items():
            seeds.draw(self.axes, curves, label, self.color(label))
        if self._series:
            self.from_zero()


def _shares(ordered: Floats, of: int | None) -> seeds.Curve:
    """The values in order, and for each the percentage of `of` (or of all values) up to it."""
    x = np.concatenate([[0.0], ordered])
    shares = 100.0 * np.arange(len(x)) / (len(ordered) if of is None else max(1, of))
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    return x[keep], np.asarray(shares[keep], dtype=np.float64)


def _known(values: Any) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    known: Floats = column[~np.isnan(column)]
    return known
