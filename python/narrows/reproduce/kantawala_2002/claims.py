"""K1 to K13 with what the paper prints and the tolerances; reasons in README.md, "Tolerances".

Gains are of one queue over another at the same buffer, in percent, paired by seed. Where the paper
says "below 2000 packets" or "for all buffer sizes", the gain is averaged, or its worst value taken,
over the buffers that were run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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

PACKET_BITS, RATE = 1500 * 8, 500e6
"""Of a packet, and of the single bottleneck in bit/s."""

_THROUGHPUT = (
    "Several hundred flows keep every queue busy: all carry 95 % of the link or more from 5000 "
    "packets on, so there is little left to gain."
)
_FAIRNESS = (
    "The order is the paper's, the factor is not: it depends on what TCP does between bursts and "
    "on its loss recovery, which the paper does not print."
)
_TAHOE = (
    "Tahoe answers each loss with slow start, where Reno without SACK often waits for its timer: "
    "the two differ most where several packets of a window are lost."
)
_HALF_SECOND = "The sources pause for 2 s between bursts, so that the largest buffer is not filled."
_SCALE = (
    "With pauses of 2 s a source whose fair share is above about 1 Mbit/s cannot use it. Without "
    "pauses one of the six lines is flat."
)

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
    note: str = "",
    reason: str = "",
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
        note=note,
        reason=reason,
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
            f"{TITLES[which]}: goodput of the 200 ms flows, of their fair share, mean over buffers",
            PERCENT,
            ROUND_TRIPS,
            ROUND_TRIPS.limits,
            (which,),
            "far_share",
            lambda figures: next(iter(figures.values())),
            published=share,
            tolerance=SHARE_TOLERANCE,
            note="The abstract names no buffer: the mean over all that were run.",
            reason=_FAIRNESS,
        )
        for queues, share in ((FAMILY, 80.0), (("red", "blue"), 40.0))
        for which in queues
    ]
    claims += [
        _compared(
            "K2",
            f"multi-hop: end-to-end flows' share of the link, {TITLES[which]} over RED and Blue, "
            "mean over buffers",
            "",
            HOPS,
            HOPS.limits,
            (which, "red", "blue"),
            "far_share",
            lambda figures, which=which: (  # type: ignore[misc]
                figures[which] / statistics.fmean((figures["red"], figures["blue"]))
            ),
            published=2.0,
            tolerance=0.4,
            note="A performance improvement similar to that of 80 over 40 %; our reading of it.",
            reason=_FAIRNESS,
        )
        for which in FAMILY
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
            f"completion ratio end-to-end / cross: non-DRR over {TITLES[which]}, mean over buffers",
            "",
            HOPS,
            HOPS.limits,
            (which, *SHARED),
            "ratio_completion",
            lambda figures, which=which: (
                statistics.fmean(figures[w] for w in SHARED)  # type: ignore[misc]
                / figures[which]
            ),
            worded=Worded("beats them by at least a factor of two", "at least", 2.0),
            note="The sentence names no buffer: the mean over all that were run.",
            reason=_FAIRNESS,
        )
        for which in ("drr", "qsdrr")
    ]
    return claims


TENTH = (200, 400)
"""Buffers of 5 and 10 % of the single bottleneck's bandwidth-delay product, 4167 packets."""


OURS = ("tdrr", "qsdrr")
"""The paper's own: "our policies"."""


def _small_buffers() -> list[Claim]:
    claims = []
    for which in OURS:
        claims.append(
            _compared(
                "K6",
                f"{TITLES[which]}: goodput with 5 and 10 % of the bandwidth-delay product, gain "
                "over the best of Tail Drop, RED and Blue",
                PERCENT,
                SINGLE,
                TENTH,
                (which, *SHARED),
                "goodput.all",
                lambda figures, which=which: (  # type: ignore[misc]
                    100.0 * (figures[which] / max(figures[w] for w in SHARED) - 1.0)
                ),
                worded=Worded(
                    f"significantly outperforms them: at least {BETTER:g} %", "at least", BETTER
                ),
                reason=_THROUGHPUT,
            )
        )

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


_TAHOE_FIGURES = {
    "single": (("goodput.all", "mean goodput"), ("completion.all", "burst completion time")),
    "rtt": (
        ("ratio", "goodput ratio 200 ms / 40 ms"),
        ("ratio_completion", "completion ratio 200 ms / 40 ms"),
    ),
    "hops": (
        ("ratio", "goodput ratio end-to-end / cross"),
        ("ratio_completion", "completion ratio end-to-end / cross"),
    ),
}
"""What the paper compares in each network: all of it is similar with Tahoe."""


def _tahoe() -> list[Claim]:
    claims = []
    for network, figures in _TAHOE_FIGURES.items():
        limits = TAHOE_LIMITS[network]
        for figure, words in figures:
            for which in QUEUES:
                pairs = [
                    (name(network, which, limit), name(network, which, limit, "tahoe"))
                    for limit in limits
                ]
                claims.append(
                    Claim(
                        "K8",
                        f"{TITLES[which]}: {words} with Tahoe against Reno, largest change",
                        PERCENT,
                        tuple(cell for pair in pairs for cell in pair),
                        _largest_change(pairs, figure),
                        worded=Worded(f"similar: at most {ALIKE:g} %", "at most", ALIKE),
                        reason=_TAHOE,
                    )
                )
    return claims


def _largest_change(pairs: Sequence[tuple[str, str]], figure: str) -> Callable[[Runs], float]:
    def worst(runs: Runs) -> float:
        changes = [
            abs(runs[tahoe][figure] / runs[reno][figure] - 1.0)
            for reno, tahoe in pairs
            if reno in runs and tahoe in runs
        ]
        return 100.0 * max(changes, default=math.nan)

    return worst


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
    claims = []
    for topology in (SINGLE, ROUND_TRIPS, HOPS):
        for which in OURS:
            for other in ("red", "blue"):
                claims.append(
                    _compared(
                        "K11",
                        f"{topology.title}: variance of goodput over flows, {TITLES[which]} over "
                        f"{TITLES[other]}, mean over buffers",
                        "",
                        topology,
                        topology.limits,
                        (which, other),
                        "deviation.all",
                        lambda figures, which=which, other=other: (  # type: ignore[misc]
                            (figures[which] / figures[other]) ** 2
                        ),
                        worded=Worded("a lower variance", "at most", 1.0),
                        reason=_FAIRNESS,
                    )
                )
                claims.append(
                    _compared(
                        "K11",
                        f"{topology.title}: mean goodput, gain of {TITLES[which]} over "
                        f"{TITLES[other]}, mean over buffers",
                        PERCENT,
                        topology,
                        topology.limits,
                        (which, other),
                        "goodput.all",
                        _gain(which, (other,)),
                        worded=Worded("a higher average goodput", "at least", 0.0),
                        note='"Significantly" is not bounded: any gain counts.',
                        reason=_THROUGHPUT,
                    )
                )
    for which in SHARED:
        claims.append(
            _compared(
                "K11",
                f"{TITLES[which]}: time that a buffer of 20000 packets holds, on average",
                "s",
                SINGLE,
                (20_000,),
                (which,),
                "backlog",
                lambda figures: next(iter(figures.values())) * PACKET_BITS / RATE,
                published=0.5,
                tolerance=0.1,
                note="Large buffers stay close to full, which is half a second.",
                reason=_HALF_SECOND,
            )
        )
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


def _hysteresis() -> list[Claim]:
    return [
        _compared(
            "K13",
            "recoveries and time-outs for each packet dropped: QSDRR over DRR, mean over buffers",
            "",
            SINGLE,
            SINGLE.limits,
            ("qsdrr", "drr"),
            "hit_per_drop",
            lambda figures: figures["qsdrr"] / figures["drr"],
            worded=Worded("affects fewer flows than DRR", "at most", 1.0),
            note="Flows hit in a drop episode, counted by what their senders did.",
        ),
        _compared(
            "K13",
            "standard deviation of the queue's length: QSDRR over DRR, mean over buffers",
            "",
            SINGLE,
            SINGLE.limits,
            ("qsdrr", "drr"),
            "backlog_deviation",
            lambda figures: figures["qsdrr"] / figures["drr"],
            worded=Worded("smaller queue length variations than DRR", "at most", 1.0),
        ),
    ]


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


_REASONS = {
    "K1": _THROUGHPUT,
    "K2": _FAIRNESS,
    "K3": _FAIRNESS,
    "K4": _FAIRNESS,
    "K5": _FAIRNESS,
    "K6": "With buffers this small no queue comes above 86 % of the best goodput, and one queue "
    "for all flows comes nearly as far.",
    "K7": _SCALE,
    "K10": "With 0.5 an idle flow is forgotten within a second; with 1e-6 the average hardly "
    "follows what a flow sends.",
    "K12": _SCALE,
}
"""Of claims that have none of their own."""

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
    *_hysteresis(),
]
CLAIMS = [replace(claim, reason=claim.reason or _REASONS.get(claim.id, "")) for claim in CLAIMS]
CLAIMS.sort(key=lambda claim: int(claim.id[1:]))
