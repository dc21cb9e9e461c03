"""The colour of a ratio, the same in every plot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from narrows.records.plotted import Color


@dataclass(frozen=True)
class Range:
    """A range of ratios with one colour."""

    upper: float
    """The upper end, which is not included."""
    colour: Color
    words: str


RANGES = (
    Range(1.8, "purple", "below 1.8"),
    Range(2.2, "blue", "1.8 to 2.2: two round trips"),
    Range(2.7, "sky", "2.2 to 2.7"),
    Range(3.3, "vermilion", "2.7 to 3.3: three round trips"),
    Range(10.0, "orange", "3.3 to 10"),
    Range(float("inf"), "ink", "10 or more"),
)

_BOUNDS = np.array([part.upper for part in RANGES[:-1]])


def range_of(ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The number of each ratio's range."""
    return np.searchsorted(_BOUNDS, ratios, side="right").astype(np.int64)


def colour_of(ratio: float) -> Color:
    """The colour of one ratio."""
    return RANGES[int(range_of(np.array([ratio]))[0])].colour
