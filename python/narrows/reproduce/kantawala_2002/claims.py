"""K1 to K12 with what the paper prints and the tolerances; reasons in README.md, "Tolerances".

Gains are of one queue over another at the same buffer, in percent, paired by seed. Where the paper
says "below 2000 packets" or "for all buffer sizes", the gain is averaged, or its worst value taken,
over the buffers that were run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from narrows.reproduce.claims import Claim, Measured, Worded
from narrows.reproduce.kantawala_2002.cells import (
    HOPS,
    ROUND_TRIPS,
    SCALED,
    SINGLE,
    TAHOE_LIMITS,
    WEIGHT_LIMITS,
    WEIGHTS,
    Topology,
    name,
    weighted,
)
from narrows.reproduce.kantawala_2002.queues import FAMILY, QUEUES, SHARED, TITLES
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

PERCENT = "%"

ALIKE = 5.0
"""Percent within which "almost exactly the same", "similar" and "does not change" are."""
GAIN_TOLERANCE = 5.0
"""Of "about 10 %" and of "almost 30 %" times 1.5: percent."""
NEAR_ONE = 0.25
"""Of a ratio that "remains close to one"."""
RATIO_TOLERANCE = 0.1
"""Of a goodput ratio that is read off a figure."""
SHARE_TOLERANCE = 10.0
"""Of "80 % of their fair share" and "40 %"."""
NEAR_OPTIMAL = 90.0
"""Percent of the best goodput, and of perfect fairness, from which "near optimal" is said."""
BETTER = 20.0
"""Percent from which "significantly better" is said."""

Runs: TypeAlias = Mapping[str, Measured]
Figures: TypeAlias = Mapping[str, float]
"""One figure of each queue, at one buffer."""


def _at_each(
    topology: Topology,
    limits: Iterable[int],
    queues: Sequence[str],
    figure: str,
    of: Callable[[Figures], float],
    over: Callable[[list[float]], float],
    variant: str = "",
) -> Callable[[Runs], float]:
    """`of` the queues' figures at each buffer, and `over` the buffers.

    Only buffers that were run count: a sensitivity row has some of them.
    """
    kept = tuple(limits)

    def measure(runs: Runs) -> float:
        values = []
        for limit in kept:
            cells = {which: name(topology.name, which, limit, variant) for which in queues}
            if all(cell in runs for cell in cells.values()):
                values.append(of({which: runs[cell][figure] for which, cell in cells.items()}))
        return over(values) if values else math.nan

    return measure


def _cells(topology: Topology, limits: Iterable[int], queues: Iterable[str]) -> tuple[str, ...]:
    wanted = set(limits)
    return tuple(
        name(topology.name, which, limit)
        for which in queues
        for limit in topology.limits
        if limit in wanted
    )


def _compared(
    id: str,
    metric: str,
    unit: str,
    topology: Topology,
    limits: Sequence[int],
    queues: Sequence[str],
    figure: str,
    of: Callable[[Figures], float],
    over: Callable[[list[float]], float] = statistics.fmean,
    *,
    published: float | None = None,
    tolerance: float | None = None,
    worded: Worded | None = None,
) -> Claim:
    return Claim(
        id,
        metric,
        unit,
        _cells(topology, limits, queues),
        _at_each(topology, limits, queues, figure, of, over),
        published,
        tolerance,
        worded,
    )


def _below(topology: Topology, bound: int) -> tuple[int, ...]:
    return tuple(limit for limit in topology.limits if limit < bound)


def _gain(which: str, others: Sequence[str], sign: int = 1) -> Callable[[Figures], float]:
    """Percent by which a queue is above the others' mean; below it with `sign` -1."""

    def of(figures: Figures) -> float:
        mean = statistics.fmean(figures[other] for other in others)
        ratio = figures[which] / mean if sign > 0 else mean / figures[which]
        return 100.0 * (ratio - 1.0)

    return of


def _spread(figures: Figures) -> float:
    """Largest less smallest, in percent of the mean."""
    values = list(figures.values())
    return 100.0 * (max(values) - min(values)) / statistics.fmean(values)


def _single_bottleneck() -> list[Claim]:
    claims = []
    goodput = ("mean goodput", "goodput.all", 1)
    completion = ("burst completion time", "completion.all", -1)
    for words, figure, sign in (goodput, completion):
        claims.append(
            _compared(
                "K1",
                f"{words}: spread of Tail Drop, RED and Blue, worst buffer",
                PERCENT,
                SINGLE,
                SINGLE.limits,
                SHARED,
                figure,
                _spread,
                max,
                worded=Worded(
                    f"almost exactly the same at every buffer: at most {ALIKE:g} % apart",
                    "at most",
                    ALIKE,
                ),
            )
        )

        def worst_gain(figures: Figures, sign: int = sign) -> float:
            family = [figures[which] for which in FAMILY]
            shared = [figures[which] for which in SHARED]
            ratio = min(family) / max(shared) if sign > 0 else min(shared) / max(family)
            return 100.0 * (ratio - 1.0)

        claims.append(
            _compared(
                "K1",
                f"{words}: worst of the DRR family against best of the others, worst buffer",
                PERCENT,
                SINGLE,
                SINGLE.limits,
                QUEUES,
                figure,
                worst_gain,
                min,
                worded=Worded(
                    "the DRR family is uniformly better, at every buffer", "at least", 0.0
                ),
            )
        )
        for which in ("tdrr", "qsdrr"):
            claims.append(
                _compared(
                    "K1",
                    f"{words}: gain of {TITLES[which]} below 2000 packets",
                    PERCENT,
                    SINGLE,
                    _below(SINGLE, 2000),
                    (which, *SHARED),
                    figure,
                    _gain(which, SHARED, sign),
                    published=10.0,
                    tolerance=GAIN_TOLERANCE,
                )
            )
        claims.append(
            _compared(
                "K1",
                f"{words}: gain of QSDRR at 5000 packets",
                PERCENT,
                SINGLE,
                (5000,),
                ("qsdrr", *SHARED),
                figure,
                _gain("qsdrr", SHARED, sign),
                published=30.0,
                tolerance=1.5 * GAIN_TOLERANCE,
            )
        )
    return claims


def _round_trips() -> list[Claim]:
    small = _below(ROUND_TRIPS, 1000)
    claims = [
        _compared(
            "K2",
            f"goodput ratio 200 ms / 40 ms below 1000 packets: {TITLES[which]} over "
            f"{TITLES[other]}",
            "",
            ROUND_TRIPS,
            small,
            (which, other),
            "ratio",
            lambda figures, which=which, other=other: figures[which] / figures[other],  # type: ignore[misc]
            worded=Worded("outperforms it by more than 100 %", "at least", 2.0),
        )
        for which in ("tdrr", "qsdrr")
        for other in ("red", "blue")
    ]
    claims += [
        _compared(
            "K2",
            f"goodput ratio 200 ms / 40 ms: gain of Tail Drop over {TITLES[other]}",
            PERCENT,
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            ("droptail", other),
            "ratio",
            _gain("droptail", (other,)),
            worded=Worded(f"significantly better: at least {BETTER:g} %", "at least", BETTER),
        )
        for other in ("red", "blue")
    ]
    claims += [
        _compared(
            "K2",
            f"{TITLES[which]}: goodput of the 200 ms flows below 1000 packets, of their fair share",
            PERCENT,
            ROUND_TRIPS,
            small,
            (which,),
            "far_share",
            lambda figures: next(iter(figures.values())),
            published=share,
            tolerance=SHARE_TOLERANCE,
        )
        for which, share in (("tdrr", 80.0), ("qsdrr", 80.0), ("red", 40.0), ("blue", 40.0))
    ]
    claims += [
        _compared(
            "K3",
            f"{TITLES[which]}: completion ratio 200 ms / 40 ms",
            "",
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            (which,),
            "ratio_completion",
            lambda figures: next(iter(figures.values())),
            published=1.0,
            tolerance=NEAR_ONE,
        )
        for which in ("tdrr", "qsdrr")
    ]
    claims.append(
        _compared(
            "K3",
            "Blue: completion ratio 200 ms / 40 ms at 5000 packets",
            "",
            ROUND_TRIPS,
            (5000,),
            ("blue",),
            "ratio_completion",
            lambda figures: figures["blue"],
            published=3.0,
            tolerance=0.5,
        )
    )
    claims.append(
        _compared(
            "K3",
            "completion ratio 200 ms / 40 ms: Blue less the highest of the others",
            "",
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            QUEUES,
            "ratio_completion",
            lambda figures: (
                figures["blue"] - max(value for which, value in figures.items() if which != "blue")
            ),
            worded=Worded("Blue has the worst performance", "at least", 0.0),
        )
    )
    return claims


def _hops() -> list[Claim]:
    claims = [
        _compared(
            "K4",
            f"{TITLES[which]}: goodput ratio end-to-end / cross",
            "",
            HOPS,
            HOPS.limits,
            (which,),
            "ratio",
            lambda figures: next(iter(figures.values())),
            published=0.3,
            tolerance=RATIO_TOLERANCE,
        )
        for which in SHARED
    ]
    claims += [
        _compared(
            "K4",
            f"goodput ratio end-to-end / cross below 2000 packets: gain of {TITLES[which]}",
            PERCENT,
            HOPS,
            _below(HOPS, 2000),
            (which, *SHARED),
            "ratio",
            _gain(which, SHARED),
            published=40.0,
            tolerance=15.0,
        )
        for which in ("drr", "qsdrr")
    ]
    claims.append(
        _compared(
            "K4",
            "goodput ratio end-to-end / cross at 5000 packets: QSDRR over the non-DRR queues",
            "",
            HOPS,
            (5000,),
            ("qsdrr", *SHARED),
            "ratio",
            lambda figures: figures["qsdrr"] / statistics.fmean(figures[w] for w in SHARED),
            published=2.0,
            tolerance=0.4,
        )
    )
    claims.append(
        _compared(
            "K4",
            "goodput ratio end-to-end / cross: TDRR against the best of the others, worst buffer",
            PERCENT,
            HOPS,
            HOPS.limits,
            QUEUES,
            "ratio",
            lambda figures: (
                100.0
                * (
                    figures["tdrr"] / max(v for which, v in figures.items() if which != "tdrr")
                    - 1.0
                )
            ),
            min,
            worded=Worded("TDRR outperforms all policies", "at least", 0.0),
        )
    )
    claims.append(
        _compared(
            "K5",
            "TDRR: completion ratio end-to-end / cross",
            "",
            HOPS,
            HOPS.limits,
            ("tdrr",),
            "ratio_completion",
            lambda figures: figures["tdrr"],
            published=1.0,
            tolerance=NEAR_ONE,
        )
    )
    claims += [
        _compared(
            "K5",
            f"{TITLES[which]}: completion ratio end-to-end / cross at 5000 packets",
            "",
            HOPS,
            (5000,),
            (which,),
            "ratio_completion",
            lambda figures: next(iter(figures.values())),
            worded=Worded("a ratio of under two", "at most", 2.0),
        )
        for which in ("drr", "qsdrr")
    ]
    claims += [
        _compared(
            "K5",
            f"{TITLES[which]}: completion ratio end-to-end / cross at 5000 packets",
            "",
            HOPS,
            (5000,),
            (which,),
            "ratio_completion",
            lambda figures: next(iter(figures.values())),
            published=3.75,
            tolerance=0.5,
        )
        for which in SHARED
    ]
    claims += [
        _compared(
            "K5",
            f"completion ratio end-to-end / cross at 5000 packets: non-DRR over {TITLES[which]}",
            "",
            HOPS,
            (5000,),
            (which, *SHARED),
            "ratio_completion",
            lambda figures, which=which: (
                statistics.fmean(figures[w] for w in SHARED)  # type: ignore[misc]
                / figures[which]
            ),
            worded=Worded("beats them by at least a factor of two", "at least", 2.0),
        )
        for which in ("drr", "qsdrr")
    ]
    return claims


TENTH = (200, 400)
"""Buffers of 5 and 10 % of the single bottleneck's bandwidth-delay product, 4167 packets."""


def _small_buffers() -> list[Claim]:
    claims = []
    for which in FAMILY:

        def of_best(runs: Runs, which: str = which) -> float:
            goodput = {cell: run["goodput.all"] for cell, run in runs.items()}
            small = [name("single", which, limit) for limit in TENTH]
            if not all(cell in goodput for cell in small):
                return math.nan
            return 100.0 * statistics.fmean(goodput[cell] for cell in small) / max(goodput.values())

        claims.append(
            Claim(
                "K6",
                f"{TITLES[which]}: goodput with 5 and 10 % of the bandwidth-delay product, of the "
                "best that any queue had with any buffer",
                PERCENT,
                _cells(SINGLE, SINGLE.limits, QUEUES),
                of_best,
                worded=Worded(
                    f"near optimal: at least {NEAR_OPTIMAL:g} %", "at least", NEAR_OPTIMAL
                ),
            )
        )
        claims.append(
            _compared(
                "K6",
                f"{TITLES[which]}: Jain's fairness of the flows' goodput with such buffers",
                PERCENT,
                SINGLE,
                TENTH,
                (which,),
                "jain.all",
                lambda figures: 100.0 * next(iter(figures.values())),
                worded=Worded(
                    f"near optimal: at least {NEAR_OPTIMAL:g} %", "at least", NEAR_OPTIMAL
                ),
            )
        )
    return claims


def _tahoe() -> list[Claim]:
    claims = []
    for which in QUEUES:
        cells = [
            name("single", which, limit, variant)
            for limit in TAHOE_LIMITS
            for variant in ("", "tahoe")
        ]

        def worst(runs: Runs, which: str = which) -> float:
            changes = [
                abs(runs[tahoe]["goodput.all"] / runs[reno]["goodput.all"] - 1.0)
                for limit in TAHOE_LIMITS
                if (tahoe := name("single", which, limit, "tahoe")) in runs
                and (reno := name("single", which, limit)) in runs
            ]
            return 100.0 * max(changes, default=math.nan)

        claims.append(
            Claim(
                "K8",
                f"{TITLES[which]}: mean goodput with Tahoe against Reno, largest change",
                PERCENT,
                tuple(cells),
                worst,
                worded=Worded(f"similar: at most {ALIKE:g} %", "at most", ALIKE),
            )
        )
    return claims


def _weights() -> list[Claim]:
    claims = []
    for topology, figure, words in (
        (SINGLE, "goodput.all", "mean goodput"),
        (ROUND_TRIPS, "ratio", "goodput ratio 200 ms / 40 ms"),
    ):
        pairs = [
            (name(topology.name, "tdrr", limit), weighted(topology.name, limit, weight))
            for limit in WEIGHT_LIMITS
            for weight in WEIGHTS
        ]

        def worst(
            runs: Runs,
            pairs: Sequence[tuple[str, str]] = tuple(pairs),
            figure: str = figure,
        ) -> float:
            return max(
                (
                    100.0 * abs(runs[other][figure] / runs[usual][figure] - 1.0)
                    for usual, other in pairs
                    if usual in runs and other in runs
                ),
                default=math.nan,
            )

        claims.append(
            Claim(
                "K10",
                f"TDRR, weights 0.5, 0.001 and 1e-6 against 0.03125: {words}, largest change",
                PERCENT,
                tuple(dict.fromkeys(cell for pair in pairs for cell in pair)),
                worst,
                worded=Worded(f"not very sensitive: at most {ALIKE:g} %", "at most", ALIKE),
            )
        )
    return claims


def _variance() -> list[Claim]:
    claims = [
        _compared(
            "K11",
            f"{topology.title}: variance of goodput over flows, {TITLES[which]} over the non-DRR "
            "queues",
            "",
            topology,
            topology.limits,
            (which, *SHARED),
            "deviation.all",
            lambda figures, which=which: (
                figures[which] ** 2  # type: ignore[misc]
                / statistics.fmean(figures[w] ** 2 for w in SHARED)
            ),
            worded=Worded("a lower variance", "at most", 1.0),
        )
        for topology in (SINGLE, ROUND_TRIPS)
        for which in FAMILY
    ]
    for which in QUEUES:

        def gain(runs: Runs, which: str = which) -> float:
            large, product = (runs.get(name("single", which, n)) for n in (20_000, 5000))
            if large is None or product is None:
                return math.nan
            return 100.0 * (large["goodput.all"] / product["goodput.all"] - 1.0)

        claims.append(
            Claim(
                "K11",
                f"{TITLES[which]}: goodput gained from 5000 to 20000 packets",
                PERCENT,
                _cells(SINGLE, (5000, 20_000), (which,)),
                gain,
                worded=Worded(f"only marginal: at most {ALIKE:g} %", "at most", ALIKE),
            )
        )
    return claims


def _flat(points: Sequence[Point], which: str) -> Callable[[Runs], float]:
    """The largest spread, over windows, of the fair-share goodput of such points."""

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


_VARIED = {"rate": "bottleneck bandwidth", "sources": "number of sources", "rtt": "round-trip time"}


def _scaling() -> list[Claim]:
    return [
        Claim(
            id,
            f"{TITLES[which]}: fair-share goodput while the {words} varies{reach}, spread at the "
            "worst window",
            PERCENT,
            tuple(point.cell(which) for point in points),
            _flat(points, which),
            worded=Worded(f"does not change: at most {2 * ALIKE:g} %", "at most", 2 * ALIKE),
        )
        for id, wide, reach in (("K7", False, ""), ("K12", True, " over section V's whole range"))
        for panel, words in _VARIED.items()
        for which in SCALED
        for points in [[p for p in POINTS if p.panel == panel and (wide or not p.wide)]]
    ]


COST_S, COST_MB = 60.0, 200.0
"""What K9's run may cost: processor seconds for 100 simulated ones, and memory."""


def _large() -> list[Claim]:
    claims = []
    sizes = {(big.sources, big.share): big for big in BIG}
    parts = {1.0: "buffer of the bandwidth-delay product", 0.1: "buffer of a tenth of it"}
    for share in SHARES:
        small, large = sizes[SMALL, share], sizes[LARGE, share]
        for which in SCALED:
            for words, figure in (
                ("mean goodput", "goodput.all"),
                ("burst completion time", "completion.all"),
            ):
                claims.append(
                    Claim(
                        "K9",
                        f"{TITLES[which]}, {parts[share]}: {words} of {LARGE} sources against "
                        f"{SMALL}, change",
                        PERCENT,
                        # The sizes between are run for the picture.
                        tuple(big.cell(which) for big in BIG if big.share == share),
                        _change(small, large, which, figure),
                        worded=Worded(
                            f"the small scale's result carries over: at most {ALIKE:g} %",
                            "at most",
                            ALIKE,
                        ),
                    )
                )
        claims.append(
            Claim(
                "K9",
                f"{parts[share]}: gain of QSDRR over Tail Drop, {LARGE} sources less {SMALL}",
                "percentage points",
                tuple(big.cell(which) for big in (small, large) for which in SCALED),
                _gain_kept(small, large),
                worded=Worded(
                    f"the small scale's result carries over: at most {ALIKE:g} points",
                    "at most",
                    ALIKE,
                ),
            )
        )
    for share in SHARES:
        for which in SCALED:
            cell = sizes[LARGE, share].cell(which)
            for words, figure, unit, most in (
                ("processor time for 100 simulated seconds", "cpu_s_per_100_s", "s", COST_S),
                ("peak memory of the process", "peak_mb", "MB", COST_MB),
            ):
                claims.append(
                    Claim(
                        "K9",
                        f"{TITLES[which]}, {parts[share]}, {LARGE} sources: {words}",
                        unit,
                        (cell,),
                        lambda runs, cell=cell, figure=figure: runs[cell][figure],  # type: ignore[misc]
                        worded=Worded(f"can be simulated: {most:g} {unit}", "at most", most),
                    )
                )
    return claims


def _change(small: Big, large: Big, which: str, figure: str) -> Callable[[Runs], float]:
    return lambda runs: (
        100.0 * abs(runs[large.cell(which)][figure] / runs[small.cell(which)][figure] - 1.0)
    )


def _gain_kept(small: Big, large: Big) -> Callable[[Runs], float]:
    def gain(runs: Runs, big: Big) -> float:
        shared, own = (runs[big.cell(which)]["goodput.all"] for which in SCALED)
        return 100.0 * (own / shared - 1.0)

    return lambda runs: abs(gain(runs, large) - gain(runs, small))


CLAIMS = [
    *_single_bottleneck(),
    *_round_trips(),
    *_hops(),
    *_small_buffers(),
    *_scaling(),
    *_tahoe(),
    *_large(),
    *_weights(),
    *_variance(),
]
CLAIMS.sort(key=lambda claim: int(claim.id[1:]))
