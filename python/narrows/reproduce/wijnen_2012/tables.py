"""The peaks of each server, what a limit on connections does, and four guesses about C-root."""

from __future__ import annotations

from narrows.reproduce.measurements import Measurements, Table
from narrows.reproduce.wijnen_2012.cells import (
    CELLS,
    FARTHER,
    FIXED,
    L_ROOT,
    LATE,
    NEW,
    NSD_10,
    NSD_100,
    OLD,
    OLD_10,
    OLD_100,
    TODAY,
)

_TITLES = {cell.name: cell.title for cell in CELLS}


def tables(outcome: Measurements) -> list[Table]:
    """The tables for which cells were measured."""
    made = [
        _table(
            outcome,
            "Figures 1 and 4: ratios of quiet servers, fourteen vantage points 2 to 300 ms away",
            (*TODAY, OLD, NEW),
            (("peak", 2), ("median", 2), ("at_2", 0), ("at_3", 0), ("slope", 3)),
            "at_2 and at_3: percent of the pairs within 0.2 of 2 and 0.3 of 3. slope: of TCP's "
            "medians on UDP's over the vantage points.",
        ),
        _table(
            outcome,
            "Figure 2: a limit on connections, before and after",
            (OLD_10, OLD_100, NSD_10, NSD_100, L_ROOT),
            (
                ("peak", 2),
                ("median", 2),
                ("p95", 1),
                ("above_4", 0),
                ("above_10", 0),
                ("failed", 1),
                ("lost", 2),
            ),
            "above_4, above_10: percent of the pairs. failed: percent of the queries over TCP of "
            "the vantage points, which wait for 5 s. lost: percent of the queries over TCP of all "
            "clients that arrived at the server and were never answered.",
        ),
        _table(
            outcome,
            "C-root between 2 and 3: what each cause would look like",
            (FIXED, FARTHER, LATE),
            (("median", 2), ("between", 0), ("slope", 3), ("intercept_ms", 1)),
            "a, a fixed delay: slope 2, the delay as intercept, and a ratio that falls with "
            "distance. b, TCP is answered elsewhere: another slope, no intercept, and one ratio "
            "for each site. c, servers of both kinds behind one address: peaks at 2 and 3 at each "
            "site, nothing between (the first table's two kinds together). d, late "
            "acknowledgements: slope 3, and 40 ms as intercept.",
        ),
    ]
    return [table for table in made if table is not None]


def _table(
    outcome: Measurements,
    title: str,
    cells: tuple[str, ...],
    metrics: tuple[tuple[str, int], ...],
    note: str,
) -> Table | None:
    rows = []
    for cell in cells:
        if not outcome.runs(cell):
            continue
        texts = []
        for metric, digits in metrics:
            values = outcome.values_at(cell, metric)
            texts.append(f"{sum(values) / len(values):.{digits}f}" if values else "-")
        rows.append([_TITLES[cell], *texts])
    if not rows:
        return None
    return Table(title, ["", *(name for name, _ in metrics)], rows, note)
