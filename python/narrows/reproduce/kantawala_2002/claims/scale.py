"""K7, K9 and K12: whether results carry over to other bandwidths, numbers of sources and sizes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from narrows.reproduce.claims import NOT_NEGATIVE, Claim, Worded
from narrows.reproduce.kantawala_2002.cells import SCALED
from narrows.reproduce.kantawala_2002.claims.comparing import ALIKE, PERCENT, Runs
from narrows.reproduce.kantawala_2002.queues import TITLES
from narrows.reproduce.kantawala_2002.scaling import (
    BIG,
    LARGE,
    POINTS,
    SHARES,
    SMALL,
    WINDOWS,
    Big,
    Point,
)


def _flat(points: Sequence[Point], which: str) -> Callable[[Runs], float]:
    """The largest spread of goodput among points with the same window, in percent of its mean."""

    def measure(runs: Runs) -> float:
        spreads = []
        for window in WINDOWS:
            shares = [
                runs[point.cell(which)]["fair_share"]
                for point in points
                if point.window == window and point.cell(which) in runs
            ]
            if len(shares) > 1:
                spreads.append(100.0 * (max(shares) - min(shares)) / statistics.fmean(shares))
        return max(spreads, default=math.nan)

    return measure


_BURSTS_FIT = (
    "A tenth of the product is 417 packets for 1000 sources and 8333 for 20,000. The larger buffer "
    "has room for many whole bursts of 256 packets."
)

_VARIED = {"rate": "bottleneck bandwidth", "sources": "number of sources", "rtt": "round-trip time"}


def scaling() -> list[Claim]:
    """K7 and K12: bandwidth, sources and round trip change at an equal fair share."""
    return [
        Claim(
            id,
            f"{TITLES[which]}: fair-share goodput while the {words} varies{reach}, spread at the "
            "worst window",
            PERCENT,
            tuple(point.cell(which) for point in points),
            _flat(points, which),
            worded=Worded(f"does not change: at most {2 * ALIKE:g} %", "at most", 2 * ALIKE),
            bounds=NOT_NEGATIVE,
        )
        for id, wide, reach in (("K7", False, ""), ("K12", True, " over section V's whole range"))
        for panel, words in _VARIED.items()
        for which in SCALED
        for points in [[p for p in POINTS if p.panel == panel and (wide or not p.wide)]]
    ]


def large() -> list[Claim]:
    """K9: the small scale against the large one."""
    claims = []
    sizes = {(big.sources, big.share): big for big in BIG}
    parts = {1.0: "buffer of the bandwidth-delay product", 0.1: "buffer of a tenth of it"}
    for share in SHARES:
        small, large = sizes[SMALL, share], sizes[LARGE, share]
        for which in SCALED:
            for words, metric in (
                ("mean goodput", "goodput.all"),
                ("burst completion time", "completion.all"),
            ):
                claims.append(
                    Claim(
                        "K9",
                        f"{TITLES[which]}, {parts[share]}: {words} of {LARGE} sources against "
                        f"{SMALL}, change",
                        PERCENT,
                        # The sizes between are run for the plot.
                        tuple(big.cell(which) for big in BIG if big.share == share),
                        _change(small, large, which, metric),
                        worded=Worded(
                            f"the small scale's result carries over: at most {ALIKE:g} %",
                            "at most",
                            ALIKE,
                        ),
                        reason=_BURSTS_FIT if share < 1.0 else "",
                        bounds=NOT_NEGATIVE,
                    )
                )
        claims.append(
            Claim(
                "K9",
                f"{parts[share]}: gain of QSDRR over Tail Drop, {LARGE} sources minus {SMALL}",
                "percentage points",
                tuple(big.cell(which) for big in (small, large) for which in SCALED),
                _gain_kept(small, large),
                worded=Worded(
                    f"the small scale's result carries over: at most {ALIKE:g} points",
                    "at most",
                    ALIKE,
                ),
                reason=_BURSTS_FIT if share < 1.0 else "",
                bounds=NOT_NEGATIVE,
            )
        )
    return claims


def _change(small: Big, large: Big, which: str, metric: str) -> Callable[[Runs], float]:
    return lambda runs: (
        100.0 * abs(runs[large.cell(which)][metric] / runs[small.cell(which)][metric] - 1.0)
    )


def _gain_kept(small: Big, large: Big) -> Callable[[Runs], float]:
    def gain(runs: Runs, big: Big) -> float:
        shared, own = (runs[big.cell(which)]["goodput.all"] for which in SCALED)
        return 100.0 * (own / shared - 1.0)

    return lambda runs: abs(gain(runs, large) - gain(runs, small))
