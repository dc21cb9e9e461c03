"""Where ratios cluster: shares around 2 and 3, the mode, and the peaks of the density."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from narrows.ratio.density import Density, density
from narrows.ratio.resampling import (
    Codes,
    Interval,
    of_medians,
    of_shares,
    percentile_interval,
    weights,
)
from narrows.records.numbers import Floats

AROUND = {"around_2": (1.8, 2.2), "around_3": (2.7, 3.3)}
"""Ranges of ratios, both ends included."""

BEYOND = {"above_4": 4.0, "above_10": 10.0}
"""Bounds above which shares of ratios are given."""

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Peak:
    """A peak of the density."""

    ratio: float
    height: float
    """The density at the peak."""
    share: float
    """Share of the ratios between the valleys on both sides."""


@dataclass(frozen=True)
class Peaks:
    """The shape of one group's ratios.

    Shares are from 0 to 1, each with the 95 % interval of a bootstrap over vantage points. An
    interval is None if there are too few vantage points.
    """

    count: int
    vantages: int
    quantiles: dict[float, float]
    median_interval: Interval | None
    mode: float
    """The half-sample mode."""
    mode_interval: Interval | None
    shares: dict[str, float]
    share_intervals: dict[str, Interval | None]
    peaks: tuple[Peak, ...]
    bandwidth: float


def peaks_of(ratios: Floats, vantage: Codes, replicates: int = 1_000) -> Peaks:
    """Shares, mode and peaks of ratios.

    Raises:
        ValueError: There are no ratios.
    """
    if not len(ratios):
        raise ValueError("no ratios")
    hits = {name: (ratios >= low) & (ratios <= high) for name, (low, high) in AROUND.items()} | {
        name: ratios > bound for name, bound in BEYOND.items()
    }
    smooth = density(ratios)
    quantiles = np.quantile(ratios, _QUANTILES)
    return Peaks(
        count=len(ratios),
        vantages=len(np.unique(vantage)),
        quantiles=dict(zip(_QUANTILES, map(float, quantiles), strict=True)),
        median_interval=of_medians(ratios, vantage, replicates),
        mode=half_sample_mode(np.sort(ratios)),
        mode_interval=_mode_interval(ratios, vantage, replicates),
        shares={name: float(hit.mean()) for name, hit in hits.items()},
        share_intervals={name: of_shares(hit, vantage, replicates) for name, hit in hits.items()},
        peaks=find_peaks(smooth, ratios),
        bandwidth=smooth.bandwidth,
    )


def half_sample_mode(ranked: Floats) -> float:
    """The half-sample mode of sorted values (Bickel and Frühwirth, 2006, section 3).

    It selects the half with the smallest range again and again until three or fewer values are
    left. It needs no bandwidth, and outliers do not move it.

    Examples:
        >>> half_sample_mode(np.array([1.0, 2.0, 2.01, 2.02, 3.0, 9.0]))
        2.005
    """
    while len(ranked) > 3:
        half = (len(ranked) + 1) // 2
        ranges = ranked[half - 1 :] - ranked[: len(ranked) - half + 1]
        start = int(np.argmin(ranges))
        if ranges[start] == 0.0:
            return float(ranked[start])
        ranked = ranked[start : start + half]
    if len(ranked) == 3:
        left, right = ranked[1] - ranked[0], ranked[2] - ranked[1]
        if left == right:
            return float(ranked[1])
        ranked = ranked[:2] if left < right else ranked[1:]
    return float(ranked.mean())


APART = 0.1
"""Two peaks count as one if they are closer than this share of the lower one's ratio, which is the
half width of `AROUND`.

Peaks that the analysis must tell apart come from round trips and from fixed delays of many
milliseconds, and are farther apart. On a constant path, a machine's delays of one or two
milliseconds make peaks a few hundredths apart. The bandwidth falls with the number of pairs, and
with many pairs it no longer smooths these away.
"""


CHANCE = 2.6
"""A peak must rise above its valleys by this many standard errors, so that a long tail has none.

Chance alone exceeds it once in two hundred times. Of samples of 60 to 10,000 ratios from three
kinds of tails, at most 5 % then have a second peak; without this rule, up to 91 % do (62 % of those
with 166).
"""


def find_peaks(smooth: Density, ratios: Floats, least: float = 0.05) -> tuple[Peak, ...]:
    """Finds peaks that rise above their valleys by at least ``least`` of the highest peak.

    They also rise by more than chance explains (`CHANCE`). Peaks closer than `APART` become one, at
    the place of the highest, with the shares of all.
    """
    values = smooth.density
    # The variance of a kernel estimate is f R(K) / (n h), and R(K) = 1 / (2 sqrt(pi)) for a
    # Gaussian kernel (Silverman, "Density Estimation", 1986, section 3.3).
    variance = 1.0 / (2.0 * math.sqrt(math.pi) * max(len(ratios), 1) * smooth.bandwidth)

    def rises(high: int, low: int) -> bool:
        error = math.sqrt(variance * float(values[high] + values[low]))
        return bool(values[high] - values[low] >= max(least * top, CHANCE * error))

    top = float(values.max(initial=0.0))
    if top <= 0.0:
        return ()
    # Walk over the hills; a valley counts once the path has risen far enough above it.
    peaks: list[int] = []
    valleys: list[int] = []
    high = low = 0
    rising = True
    for index in range(1, len(values)):
        if rising:
            if values[index] > values[high]:
                high = index
            elif rises(high, index):
                peaks.append(high)
                rising, low = False, index
        elif values[index] < values[low]:
            low = index
        elif rises(index, low):
            valleys.append(low)
            rising, high = True, index
    while len(peaks) > 1:
        at = smooth.ratio[peaks]
        apart = np.diff(at) / at[:-1]
        nearest = int(np.argmin(apart))
        if apart[nearest] >= APART:
            break
        lower = nearest if values[peaks[nearest]] < values[peaks[nearest + 1]] else nearest + 1
        del peaks[lower], valleys[nearest]
    edges = [-np.inf, *(float(smooth.ratio[valley]) for valley in valleys), np.inf]
    found = []
    for number, peak in enumerate(peaks):
        inside = (ratios >= edges[number]) & (ratios < edges[number + 1])
        found.append(Peak(float(smooth.ratio[peak]), float(values[peak]), float(inside.mean())))
    return tuple(found)


def _mode_interval(ratios: Floats, vantage: Codes, replicates: int) -> Interval | None:
    count = int(vantage.max()) + 1
    if count < 2:
        return None
    order = np.argsort(ratios, kind="stable")
    ranked, owner = ratios[order], vantage[order]
    replicates = min(replicates, max(100, 5_000_000 // len(ratios)))
    modes = [
        half_sample_mode(np.repeat(ranked, drawn[owner]))
        for batch in weights(count, replicates)
        for drawn in batch
        if drawn[owner].any()
    ]
    return percentile_interval(np.array(modes))
