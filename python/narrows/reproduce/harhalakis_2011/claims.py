"""H1 to H10 with what the paper prints and the tolerances; reasons in README.md, "Tolerances"."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from narrows.reproduce.claims import Claim, Measured, Worded
from narrows.reproduce.harhalakis_2011 import published
from narrows.reproduce.harhalakis_2011.cells import CELLS

POINTS = "percentage points"
PERCENT = "%"

FIRST_TOLERANCE = 2.0
"""First-attempt success with the printed queue parameters (300 ms), points."""

DERIVED_TOLERANCE = 3.0
"""First-attempt success with derived queue parameters (200 ms), points."""

ATTEMPT_TOLERANCES = (2.0, 2.0, 0.6, 0.2, 0.05)
"""Of attempts 1 to 5: two points of loss in a geometric law, and one sample's noise."""

UNANSWERED_TOLERANCE = 0.015
"""Three of 20000: what "none seen" leaves possible at 95 %."""

FAR_WORSE = 5.0
"""Points that "far worse" (H9) asks for at least."""

_TITLES = {cell.name: cell.title for cell in CELLS}


def _figure(cell: str, name: str) -> Callable[[Mapping[str, Measured]], float]:
    return lambda runs: runs[cell][name]


def _less(
    cell: str, other: str, name: str = "first_attempt"
) -> Callable[[Mapping[str, Measured]], float]:
    return lambda runs: runs[cell][name] - runs[other][name]


def _attempts(id: str, cell: str) -> list[Claim]:
    return [
        Claim(
            id,
            f"{_TITLES[cell]}: replied on attempt {number}",
            PERCENT,
            (cell,),
            _figure(cell, f"attempt_{number}"),
            # From the counts, which are exact where the printed percentages are rounded.
            published=100.0 * count / published.QUERIES,
            tolerance=tolerance,
        )
        for number, (count, tolerance) in enumerate(
            zip(published.ATTEMPTS[cell], ATTEMPT_TOLERANCES, strict=True), start=1
        )
    ]


def _confidence() -> list[Claim]:
    claims = []
    for cell, row in published.CONFIDENCE.items():
        claims.append(
            Claim(
                "H5",
                f"{_TITLES[cell]}: mean first-attempt success",
                PERCENT,
                (cell,),
                _figure(cell, "first_attempt"),
                published=row.mean,
                tolerance=FIRST_TOLERANCE,
            )
        )
        claims.append(
            Claim(
                "H5",
                f"{_TITLES[cell]}: standard deviation between runs",
                POINTS,
                (cell,),
                _figure(cell, "first_attempt"),
                published=row.deviation,
                tolerance=0.5,
                statistic="deviation",
            )
        )
    return claims


def _table_4(id: str, delay: str) -> list[Claim]:
    return [
        Claim(
            id,
            f"{_TITLES[cell]}: replied on attempt 1",
            PERCENT,
            (cell,),
            _figure(cell, "first_attempt"),
            published=100.0 * published.FIRST_ATTEMPT[cell] / published.QUERIES,
            tolerance=DERIVED_TOLERANCE,
        )
        for cell in (f"fifo-{delay}", f"red-{delay}-none", f"red-{delay}-half", f"red-{delay}-all")
    ]


def _figure_2() -> list[Claim]:
    fifo, red = "fifo-300", "red-300-none"
    return [
        Claim(
            "H8",
            "RED: rise of the drop rate when DNS starts",
            PERCENT,
            (red,),
            _figure(red, "drops_rise"),
            published=published.RED_RISE_PERCENT,
            tolerance=10.0,
        ),
        Claim(
            "H8",
            "rise of the drop rate: RED less FIFO",
            "drops/s",
            (red, fifo),
            _less(red, fifo, "drops_rise_per_s"),
            worded=Worded("the drop rate rises more with RED than with FIFO", "at least", 0.0),
        ),
        Claim(
            "H8",
            "FIFO: rise of the drop rate in standard deviations of its curve",
            "",
            (fifo,),
            lambda runs: runs[fifo]["drops_rise_per_s"] / runs[fifo]["ewma_deviation"],
            worded=Worded(
                "the rise with FIFO is hardly distinguished from normal traffic", "at most", 1.0
            ),
        ),
        *(
            Claim(
                "H8",
                f"{name}: utilisation",
                PERCENT,
                (cell,),
                _figure(cell, "utilisation"),
                published=100.0,
                tolerance=0.5,
            )
            for name, cell in (("FIFO", fifo), ("RED", red))
        ),
    ]


def _worse() -> list[Claim]:
    pairs = [
        ("packet FIFO against byte FIFO", "fifo-300", "pfifo-300"),
        ("RED with halved thresholds against RED", "red-300-none", "red-300-low"),
        ("RED with probability 0.2 against RED", "red-300-none", "red-300-p20"),
        ("RED with probability 0.5 against RED", "red-300-none", "red-300-p50"),
    ]
    return [
        Claim(
            "H9",
            f"{name}: first-attempt success lost",
            POINTS,
            (usual, worse),
            _less(usual, worse),
            worded=Worded(
                f"far worse: at least {FAR_WORSE:g} points are lost", "at least", FAR_WORSE
            ),
        )
        for name, usual, worse in pairs
    ]


def _differences() -> list[Claim]:
    claims = []
    for delay in ("300", "200-20", "200-50"):
        for share, words in (("none", "FIFO to RED"), ("all", "FIFO to RED with only ECN")):
            fifo, red = f"fifo-{delay}", f"red-{delay}-{share}"
            counts = published.FIRST_ATTEMPT
            claims.append(
                Claim(
                    "H10",
                    f"{_TITLES[fifo].removeprefix('FIFO, ')}: {words}, first-attempt success lost",
                    POINTS,
                    (fifo, red),
                    _less(fifo, red),
                    published=100.0 * (counts[fifo] - counts[red]) / published.QUERIES,
                    tolerance=3.0 if delay == "300" else 4.0,
                )
            )
    claims.append(
        Claim(
            "H10",
            "FIFO, 300 ms: share of the time in which the queue is not full",
            PERCENT,
            ("fifo-300",),
            _figure("fifo-300", "room"),
            published=published.NOT_FULL_PERCENT,
            tolerance=2.0,
        )
    )
    claims.extend(
        Claim(
            "H10",
            f"{_TITLES[cell]}: unanswered after attempt 5",
            PERCENT,
            (cell,),
            _figure(cell, "unanswered"),
            published=0.0,
            tolerance=UNANSWERED_TOLERANCE,
        )
        for cell in published.ATTEMPTS
    )
    return claims


CLAIMS = [
    *_attempts("H1", "fifo-300"),
    *_attempts("H2", "red-300-none"),
    *_attempts("H3", "red-300-half"),
    *_attempts("H4", "red-300-all"),
    *_confidence(),
    *_table_4("H6", "200-20"),
    *_table_4("H7", "200-50"),
    *_figure_2(),
    *_worse(),
    *_differences(),
]
