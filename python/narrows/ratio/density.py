"""Histograms and densities of ratios.

The article plots a density without naming an estimator. It has histograms with "bins of 1/100th of
a second" for a quantity that has no unit. Here, a bin is 0.01 wide and shows percent of the valid
pairs. The density has a Gaussian kernel with the bandwidth of Sheather and Jones ("A reliable
data-based bandwidth selection method for kernel density estimation", J. R. Statist. Soc. B 53,
1991, pages 683-690: the method that solves the equation, R's `bw.SJ`), over the plotted ratios. R
uses `bw.nrd0` by default, for compatibility, but recommends this one. A rule of thumb such as nrd0
assumes a single hump and scales with the spread of the data. If a full server pushes a quarter of
the ratios beyond 13, such a rule smooths a peak at 3 away. SciPy's `gaussian_kde` has no others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from narrows.records.numbers import Floats

BIN = 0.01
"""Width of a histogram's bin."""

TOP = 10.0
"""The end of the plots' axis. A note gives the share beyond it."""

SMOOTHED = (
    "A density is smoothed, which can move a peak towards its longer tail; the mode that narrows "
    "ratio prints is not smoothed."
)
"""The text in the caption of a density."""

_GRID = 4096
_STEP = TOP / _GRID

_FEW = 5
"""With fewer ratios than this, the rule of thumb gives the bandwidth."""


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
    # A ratio on a bin's left end belongs to that bin, however the quotient is rounded.
    bins = np.floor(ratios / BIN + 1e-9)
    inside = bins[(bins >= 0) & (bins < count)].astype(np.int64)
    scale = 100.0 / max(len(ratios), 1)
    percent = np.bincount(inside, minlength=count) * scale
    beyond = float(np.count_nonzero(bins >= count) * scale)
    return _floats(np.arange(count) * BIN), _floats(percent), beyond


def nrd0(ratios: Floats) -> float:
    """R's default bandwidth (Silverman, "Density Estimation", 1986, equation 3.31).

    It is 0.9 min(sd, IQR / 1.34) n^(-1/5).

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
    # R does the same if one of them is zero.
    scale = scale or spread or abs(float(ratios[0])) or 1.0
    return float(0.9 * scale * len(ratios) ** -0.2)


def sheather_jones(ratios: Floats) -> float:
    """The bandwidth of Sheather and Jones for the ratios in [0, `TOP`]; `nrd0` if none exists.

    The best bandwidth depends on the density's roughness. Another kernel estimates the roughness,
    and its bandwidth depends on the one that is sought (their equation 12).
    """
    drawn = ratios[(ratios >= 0.0) & (ratios <= TOP)]
    count = len(drawn)
    if count < _FEW:
        return nrd0(ratios)
    low, high = np.quantile(drawn, (0.25, 0.75))
    scale = min(float(np.std(drawn, ddof=1)), float(high - low) / 1.349)
    if scale <= 0.0:
        return nrd0(ratios)
    distance, pairs = _distances(drawn)

    def roughness(order: int, width: float) -> float:
        """The estimate of the integral of the density times its 4th or 6th derivative."""
        square = (distance / width) ** 2
        near = square < 1000.0
        square = square[near]
        if order == 4:
            form, at_zero = square**2 - 6.0 * square + 3.0, 3.0
        else:
            form, at_zero = square**3 - 15.0 * square**2 + 45.0 * square - 15.0, -15.0
        total = 2.0 * float(np.sum(np.exp(-0.5 * square) * form * pairs[near])) + count * at_zero
        norm = count * (count - 1) * width ** (order + 1) * math.sqrt(2.0 * math.pi)
        return float(total / norm)

    fourth = roughness(4, 1.24 * scale * count ** (-1 / 7))
    sixth = -roughness(6, 1.23 * scale * count ** (-1 / 9))
    if fourth <= 0.0 or sixth <= 0.0:
        return nrd0(ratios)
    factor = 1.357 * (fourth / sixth) ** (1 / 7)

    def excess(width: float) -> float:
        """How far a bandwidth is above the best one for its estimate of the roughness."""
        found = roughness(4, factor * width ** (5 / 7))
        if found <= 0.0:
            return -math.inf
        return float(width - (2.0 * math.sqrt(math.pi) * count * found) ** (-1 / 5))

    below, above = _STEP, float(1.144 * scale * count ** (-1 / 5))
    if excess(above) <= 0.0:
        return above
    if excess(below) >= 0.0:
        return below
    for _ in range(50):
        middle = math.sqrt(below * above)
        below, above = (below, middle) if excess(middle) > 0.0 else (middle, above)
    return above


def _distances(drawn: Floats) -> tuple[Floats, Floats]:
    """Distances on the grid, from one step on, and the number of pairs of ratios at each."""
    bins = np.minimum(np.floor(drawn / _STEP).astype(np.int64), _GRID - 1)
    mass = np.bincount(bins, minlength=_GRID).astype(np.float64)
    spectrum = np.fft.rfft(mass, 2 * _GRID)
    pairs = np.rint(np.fft.irfft(np.abs(spectrum) ** 2, 2 * _GRID)[1:_GRID])
    # Pairs within one bin count as equal.
    within = float((mass * (mass - 1.0)).sum() / 2.0)
    distance = np.arange(_GRID) * _STEP
    return _floats(distance), _floats(np.concatenate([[within], pairs]))


def density(ratios: Floats, bandwidth: float | None = None) -> Density:
    """The density of ratios on [0, `TOP`]; the default `bandwidth` is that of `sheather_jones`.

    It puts ratios on a fine grid and convolves them with the kernel (Silverman, section 3.5). A
    ratio beyond `TOP` counts for the scale but is not drawn.
    """
    width = sheather_jones(ratios) if bandwidth is None else bandwidth
    step = _STEP
    width = max(width, 2.0 * step)
    at = ratios / step
    inside = (at >= 0.0) & (at < _GRID)
    low = np.floor(at[inside]).astype(np.int64)
    part = at[inside] - low
    mass = np.bincount(low, weights=1.0 - part, minlength=_GRID + 1)
    mass += np.bincount(low + 1, weights=part, minlength=_GRID + 1)
    # The grid has twice the length, so that the convolution does not wrap around.
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
        seconds: The time of each pair, from the start of the day.
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
