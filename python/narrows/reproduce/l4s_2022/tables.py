"""The published tables, next to ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from narrows.reproduce.claims import Claim
from narrows.reproduce.l4s_2022.cells import fairness_cell
from narrows.reproduce.l4s_2022.claims import CLAIMS, tolerance
from narrows.reproduce.l4s_2022.published import (
    FAIRNESS,
    OVERLOAD,
    OVERLOAD_QUANTITIES,
    QUANTITIES,
    mixed,
)
from narrows.reproduce.measurements import Measurements, Table

_NOTE = "Published / ours, the mean over the seeds. An asterisk: outside the tolerance."

_KINDS: Mapping[str, Callable[[str], bool]] = {
    "rates": lambda name: name.startswith("rate"),
    "delays": lambda name: name.startswith("delay"),
    "marks": lambda name: name.startswith("marks"),
    "drops": lambda name: name.startswith("drops"),
    "utilisation": lambda name: name.startswith("util"),
}


def tables(outcome: Measurements) -> list[Table]:
    """The tables for which cells were run."""
    built = [_mixed(outcome, aqm) for aqm in ("dualpi2", "pie", "fqcodel")]
    built += [_overload(outcome), _fairness(outcome), _agreement(outcome)]
    return [table for table in built if table is not None]


def _pair(outcome: Measurements, cell: str, metric: str, published: float, low: bool) -> str:
    interval = outcome.interval(cell, metric)
    if interval is None:
        return "-"
    far = abs(interval.mean - published) > tolerance(metric, published, low_delay=low)
    digits = 1 if published >= 100 else 2
    return f"{published:g} / {interval.mean:.{digits}f}{'*' if far else ''}"


def _mixed(outcome: Measurements, aqm: str) -> Table | None:
    rows = []
    for row in mixed():
        if row.aqm == aqm and outcome.runs(row.cell):
            found = dict(row.values)
            cells = [
                _pair(outcome, row.cell, name, found[name], aqm == "dualpi2")
                if name in found
                else ""
                for name in QUANTITIES
            ]
            title = row.title.partition(": ")[2]
            rows.append([row.id.removeprefix("L4S-"), title, *cells])
    if not rows:
        return None
    columns = [f"{title}, {unit}" for title, unit in QUANTITIES.values()]
    return Table(f"Mixed round trips at 40 Mbit/s: {aqm}", ["id", "", *columns], rows, _NOTE)


def _overload(outcome: Measurements) -> Table | None:
    rows = [
        [
            row.id.removeprefix("L4S-"),
            f"{row.stream}",
            *(
                _pair(outcome, row.id, name, published, low=True)
                for name, published in zip(OVERLOAD_QUANTITIES, row.values, strict=True)
            ),
        ]
        for row in OVERLOAD
        if outcome.runs(row.id)
    ]
    if not rows:
        return None
    columns = [f"{title}, {unit}" for title, unit in OVERLOAD_QUANTITIES.values()]
    return Table("Overload at 100 Mbit/s", ["id", "stream, Mbit/s", *columns], rows, _NOTE)


def _fairness(outcome: Measurements) -> Table | None:
    rows = [
        [
            row.id.removeprefix("L4S-"),
            row.title,
            *(
                _pair(outcome, fairness_cell(row), which, published, low=False)
                for which, published in zip(("first", "second"), row.rates, strict=True)
            ),
        ]
        for row in FAIRNESS
        if outcome.runs(fairness_cell(row))
    ]
    if not rows:
        return None
    columns = ["id", "", "goodput of the first, Mbit/s", "goodput of the second, Mbit/s"]
    return Table("Heist and Morton: two connections over 50 Mbit/s", columns, rows, _NOTE)


def _agreement(outcome: Measurements) -> Table | None:
    """How many metrics lie within their tolerance, by source and kind."""
    sources = {
        "mixed round trips, PIE and FQ-CoDel": {
            row.cell for row in mixed() if row.aqm != "dualpi2"
        },
        "mixed round trips, DualPI2": {row.cell for row in mixed() if row.aqm == "dualpi2"},
        "overload": {row.id for row in OVERLOAD},
        "Heist and Morton": {fairness_cell(row) for row in FAIRNESS},
    }
    rows = []
    for source, cells in sources.items():
        claims = [c for c in CLAIMS if c.published is not None and not c.fitted]
        mine = [
            claim for claim in claims if claim.cells[0] in cells and outcome.runs(claim.cells[0])
        ]
        if mine:
            kinds = {kind: [c for c in mine if _kind(c.metric) == kind] for kind in _KINDS}
            rows.append(
                [source, *(_count(outcome, kinds[kind]) for kind in _KINDS), _count(outcome, mine)]
            )
    if not rows:
        return None
    return Table(
        "Means within the tolerance",
        ["source", *_KINDS, "all"],
        rows,
        "Of so many metrics, without D9 and CSV13, which led to a correction. A verdict also needs "
        "the interval inside the tolerance.",
    )


def _kind(metric: str) -> str:
    words = {"rate": "rates", "goodput": "rates", "delay": "delays", "marks": "marks"}
    words |= {"drops": "drops", "utilisation": "utilisation"}
    end = metric.partition(": ")[2]
    return next(kind for word, kind in words.items() if word in end)


def _count(outcome: Measurements, claims: Iterable[Claim]) -> str:
    near = total = 0
    for claim in claims:
        interval = outcome.claim_interval(claim)
        if interval is not None:
            total += 1
            low, high = claim.accepted
            near += low <= interval.mean <= high
    return f"{near} of {total}" if total else ""
