"""Histograms and densities of ratios.

The article plots a density without naming an estimator, and histograms "into bins of 1/100th of a
second" of a quantity that has no unit. Here a bin is 0.01 wide and holds percent of the valid
pairs. The density is a Gaussian kernel's with the bandwidth that R takes by default, `bw.nrd0`
(Silverman, "Density Estimation", 1986, equation 3.31): 0.9 min(sd, IQR / 1.34) n^(-1/5). The
smaller of the two keeps peaks at 2 and 3 apart where a few ratios of 100 make the standard
deviation large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["BIN", "TOP", "Density", "density", "histogram", "nrd0", "over_the_day"]

Floats = npt.NDArray[np.float64]

BIN = 0.01
"""Width of a histogram's bin."""

TOP = 10.0
"""Where figures end; the share beyond is said beside them."""

_GRID = 4096


@dataclass(frozen=True)
class Density:
    """A density on [0, `TOP`]."""

    ratio: Floats
    density: Floats
    bandwidth: float


def histogram(ratios: Floats) -> tuple[Floats, Floats, float]:
    """Left ends of bins, percent of all ratios in each, and the percent at or beyond `TOP`.

    Examples:
        >>> left, percent, beyond = histogram(np.array([2.004, 2.001, 3.0, 12.0]))
        >>> float(percent[200]), float(percent[300]), beyond
        (50.0, 25.0, 25.0)
    """
    count = round(TOP / BIN)
    # A ratio that lies on a bin's left end belongs to it, whatever the rounding of the quotient.
    bins = np.floor(ratios / BIN + 1e-9)
    inside = bins[(bins >= 0) & (bins < count)].astype(np.int64)
    scale = 100.0 / max(len(ratios), 1)
    percent = np.bincount(inside, minlength=count) * scale
    beyond = float(np.count_nonzero(bins >= count) * scale)
    return _floats(np.arange(count) * BIN), _floats(percent), beyond


def nrd0(ratios: Floats) -> float:
    """R's default bandwidth.

    Examples:
        >>> # An interquartile range of 2, below the standard deviation of 1.58 times 1.34.
        >>> nrd0(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == 0.9 * 2.0 / 1.34 * 5**-0.2
        True
    """
    if len(ratios) < 2:
        return 1.0
    spread = float(np.std(ratios, ddof=1))
    low, high = np.quantile(ratios, (0.25, 0.75))
    scale = min(spread, float(high - low) / 1.34)
    # As R does where one of them is zero.
    scale = scale or spread or abs(float(ratios[0])) or 1.0
    return float(0.9 * scale * len(ratios) ** -0.2)


def density(ratios: Floats, bandwidth: float | None = None) -> Density:
    """The density of ratios on [0, `TOP`]; `bandwidth` None takes `nrd0`.

    Ratios are put on a fine grid and convolved with the kernel (Silverman, section 3.5); a ratio
    beyond `TOP` counts for the scale but is not drawn.
    """
    width = nrd0(ratios) if bandwidth is None else bandwidth
    step = TOP / _GRID
    width = max(width, 2.0 * step)
    at = ratios / step
    inside = (at >= 0.0) & (at < _GRID)
    low = np.floor(at[inside]).astype(np.int64)
    part = at[inside] - low
    mass = np.bincount(low, weights=1.0 - part, minlength=_GRID + 1)
    mass += np.bincount(low + 1, weights=part, minlength=_GRID + 1)
    # Twice the length, so that one end does not run into the other.
    length = 2 * (_GRID + 1)
    frequency = 2.0 * np.pi * np.fft.rfftfreq(length, d=step)
    kernel = np.exp(-0.5 * (frequency * width) ** 2)
    smooth = np.fft.irfft(np.fft.rfft(mass, length) * kernel, length)[: _GRID + 1]
    scale = 1.0 / (max(len(ratios), 1) * step)
    grid = np.arange(_GRID + 1) * step
    return Density(_floats(grid), _floats(np.maximum(smooth, 0.0) * scale), width)


def over_the_day(
    seconds: Floats, ratios: Floats, step_s: float = 1800.0, width: float = 0.05
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Counts by time (rows) and ratio (columns), with the left ends of both.

    Args:
        seconds: When each pair was, from the start of the day.
        ratios: The ratios; those at or beyond `TOP` are left out.
        step_s: Length of a time step.
        width: Width of a bin of ratios.
    """
    rows = max(1, int(np.floor(seconds.max() / step_s)) + 1) if len(seconds) else 1
    columns = round(TOP / width)
    row = np.floor(seconds / step_s).astype(np.int64)
    column = np.floor(ratios / width + 1e-9).astype(np.int64)
    inside = (column >= 0) & (column < columns) & (row >= 0)
    flat = np.bincount(row[inside] * columns + column[inside], minlength=rows * columns)
    counts = flat.reshape(rows, columns).astype(np.int64)
    return _floats(np.arange(rows) * step_s), _floats(np.arange(columns) * width), counts


def _floats(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
