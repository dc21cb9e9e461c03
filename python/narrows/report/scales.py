"""The ends of a drawing's axes, where a declaration leaves them to the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from narrows.records.numbers import Floats
from narrows.records.plotted import Axis
from narrows.report.drawing import Drawing

NARROW = 3.0
"""An axis that chooses is logarithmic if the largest value is this many times the least."""
_MARGIN = 0.04
"""The share of an axis that is free at each end."""
_ABOVE = {"x": 1.05, "y": 1.12}
"""Where an axis that begins at zero ends, as a multiple of the largest value."""


def completed(drawing: Drawing) -> Drawing:
    """The drawing with both ends of each axis."""
    return replace(
        drawing,
        x=_completed(drawing.x, "x", [curve.x for curve in drawing.curves], _levels(drawing, "x")),
        y=_completed(drawing.y, "y", [curve.y for curve in drawing.curves], _levels(drawing, "y")),
    )


def _levels(drawing: Drawing, axis: str) -> list[float]:
    return [level.at for level in drawing.levels if level.axis == axis and axis == "y"]


def _completed(axis: Axis, name: str, data: Sequence[Floats], levels: Sequence[float]) -> Axis:
    known = [each[np.isfinite(each)] for each in data]
    if axis.log:
        known = [each[each > 0.0] for each in known]
    found = [end for each in known if len(each) for end in (float(each.min()), float(each.max()))]
    found += levels
    low, high = (min(found), max(found)) if found else (0.0, 0.0)
    begin, end = axis.ends
    if axis.log == "auto":
        return _chosen(axis, low, high)
    if axis.log:
        factor = (high / low) ** _MARGIN if low > 0.0 else 1.0
        ends = low / factor if low > 0.0 else 1.0, high * factor if high > low else 10.0
        return replace(axis, ends=(begin or ends[0], end or ends[1]))
    if begin is not None and end is None:
        end = begin + _ABOVE[name] * (high - begin) if high > begin else begin + 1.0
    margin = _MARGIN * (high - low) or 0.5
    return replace(
        axis,
        ends=(low - margin if begin is None else begin, high + margin if end is None else end),
    )


def _chosen(axis: Axis, low: float, high: float) -> Axis:
    """A logarithmic axis, or a linear one if the values are close together."""
    if not low > 0.0:
        return replace(axis, log=True, ends=(1.0, 10.0))
    if high < NARROW * low:
        margin = max(_MARGIN * (high - low), 5e-4 * high)
        return replace(axis, log=False, ends=(low - margin, high + margin))
    factor = (high / low) ** _MARGIN
    label = axis.label.replace(" (", ", logarithmic (") if "(" in axis.label else ""
    return replace(
        axis,
        log=True,
        ends=(low / factor, high * factor),
        label=label or f"{axis.label}, logarithmic",
    )
