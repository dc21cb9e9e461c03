"""The published numbers, next to ours."""

from __future__ import annotations

from narrows.reproduce.claims import Claim
from narrows.reproduce.hoiland_jorgensen_2018.claims import CLAIMS, share_of
from narrows.reproduce.hoiland_jorgensen_2018.published import (
    CLASSES,
    CONNECTIONS,
    PROBES,
    RRUL,
    SHARES,
)
from narrows.reproduce.measurements import Measurements, Table

_NOTE = "Published / ours, the mean over the seeds. An asterisk: outside the tolerance."


def tables(outcome: Measurements) -> list[Table]:
    """The tables for which cells were run."""
    built = [_rates(outcome), _round_trips(outcome), _shares(outcome)]
    return [table for table in built if table is not None]


def _pair(outcome: Measurements, claim: Claim | None) -> str:
    if claim is None or claim.published is None or claim.tolerance is None:
        return ""
    interval = outcome.claim_interval(claim)
    if interval is None:
        return "-"
    far = abs(interval.mean - claim.published) > claim.tolerance
    digits = 1 if claim.published >= 100 else 3 if claim.published < 1 else 2
    return f"{claim.published:g} / {interval.mean:.{digits}f}{'*' if far else ''}"


def _find(cell: str, ending: str) -> Claim | None:
    """The claim about a cell whose metric ends so."""
    return next(
        (claim for claim in CLAIMS if claim.cells == (cell,) and claim.metric.endswith(ending)),
        None,
    )


def _rates(outcome: Measurements) -> Table | None:
    endings = [*(f": upload {name.upper()}" for name in CLASSES), "all uploads", "all downloads"]
    rows = [
        [
            f"C{row.number}",
            row.title,
            *(_pair(outcome, _find(row.cell, ending)) for ending in endings),
        ]
        for row in RRUL
        if outcome.runs(row.cell)
    ]
    columns = ["row", "queue", *(name.upper() for name in CLASSES), "uploads", "downloads"]
    return Table("Goodput by DSCP, Mbit/s", columns, rows, _NOTE) if rows else None


def _round_trips(outcome: Measurements) -> Table | None:
    probes = [("icmp", 50), ("icmp", 99), ("udp-be", 99), ("udp-bk", 50), ("udp-bk", 99)]
    probes += [("udp-ef", 50), ("udp-ef", 99)]

    def words(percentile: int) -> str:
        return "median" if percentile == 50 else "99 %"

    rows = [
        [
            f"C{row.number}",
            row.title,
            *(
                _pair(outcome, _find(row.cell, f"{PROBES[probe]}, {words(percentile)}"))
                for probe, percentile in probes
            ),
        ]
        for row in RRUL
        if outcome.runs(row.cell)
    ]
    columns = ["row", "queue", *(f"{PROBES[probe]}, {words(part)}" for probe, part in probes)]
    return Table("Round trips, ms", columns, rows, _NOTE) if rows else None


def _shares(outcome: Measurements) -> Table | None:
    claims = {claim.metric: claim for claim in CLAIMS}
    rows = [
        [mode, *(_pair(outcome, claims[share_of(mode, pair)]) for pair in CONNECTIONS)]
        for mode in SHARES
        if outcome.runs(f"isolation-{mode}")
    ]
    columns = ["isolation", *(pair.replace("-", " to ") for pair in CONNECTIONS)]
    return Table("Figure 3: a connection's share, %", columns, rows, _NOTE) if rows else None
