"""A claim for each metric of each row. Tolerances are those that were set before the first run."""

from __future__ import annotations

from narrows.reproduce.claims import NOT_NEGATIVE, SHARE, Claim, metric_of, worded
from narrows.reproduce.l4s_2022.cells import fairness_cell
from narrows.reproduce.l4s_2022.published import (
    CORRECTED,
    FAIRNESS,
    OVERLOAD,
    OVERLOAD_QUANTITIES,
    QUANTITIES,
    mixed,
)


def tolerance(metric: str, published: float, *, low_delay: bool) -> float:
    """Half the width of the range that counts as agreement, in the metric's unit.

    Args:
        metric: A name of `QUANTITIES` or `OVERLOAD_QUANTITIES`.
        published: The published number.
        low_delay: Whether the ECN packets have a queue of their own that aims for a short delay.
    """
    if metric.startswith("rate"):
        return max(0.1 * published, 0.05)
    if metric == "utilisation_pct":
        return 1.0
    if metric.startswith("delay"):
        short = metric.startswith("delay_ecn") and low_delay
        return max(0.25 * published, 0.15) if short else 0.15 * published
    if metric.startswith("drops"):
        return max(0.2 * published, 0.05)
    return 0.2 * published


CLAIMS: list[Claim] = [
    *(
        Claim(
            row.id,
            f"{row.title}: {QUANTITIES[name][0]}",
            QUANTITIES[name][1],
            (row.cell,),
            metric_of(row.cell, name),
            published=published,
            tolerance=tolerance(name, published, low_delay=row.aqm == "dualpi2"),
            bounds=SHARE if name in ("marks_ecn_pct", "drops_classic_pct") else NOT_NEGATIVE,
            fitted=row.id in CORRECTED,
        )
        for row in mixed()
        for name, published in row.values
    ),
    *(
        Claim(
            row.id,
            f"stream of {row.stream} Mbit/s: {title}",
            unit,
            (row.id,),
            metric_of(row.id, name),
            published=published,
            tolerance=tolerance(name, published, low_delay=True),
            bounds=SHARE if unit == "%" else NOT_NEGATIVE,
        )
        for row in OVERLOAD
        for (name, (title, unit)), published in zip(
            OVERLOAD_QUANTITIES.items(), row.values, strict=True
        )
    ),
    *(
        Claim(
            row.id,
            f"{row.title}: goodput of the {which}",
            "Mbit/s",
            (fairness_cell(row),),
            metric_of(fairness_cell(row), which),
            published=published,
            tolerance=max(0.1 * published, 0.05),
            bounds=NOT_NEGATIVE,
        )
        for row in FAIRNESS
        for which, published in zip(("first", "second"), row.rates, strict=True)
    ),
    worded(
        "L4S-H20",
        "fq-codel: the smaller of two goodputs",
        "Mbit/s",
        ("H21-cubic",),
        lambda runs: min(runs["H21-cubic"]["first"], runs["H21-cubic"]["second"]),
        ("any two get at least 21.3 each", "at least", 21.3),
        note="checked with the pair of H21",
    ),
]
