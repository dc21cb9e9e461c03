"""What a reproduction found: measured cells, judged claims, tables, and the JSON form of it all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from narrows.reproduce.cells import Cell, Choice
from narrows.reproduce.claims import Claim, Judged, Verdict, judge
from narrows.reproduce.measurements import Agreement, Measurements
from narrows.reproduce.paper import Paper

FORMAT = 1
"""Version of the JSON document."""

DIFFERS = frozenset({Verdict.FAILS, Verdict.DEPENDS, Verdict.UNDECIDED})
"""Verdicts with which a claim's reason is shown."""


@dataclass(kw_only=True)
class Outcome(Measurements):
    """All that `narrows reproduce` measured for one paper."""

    paper: Paper
    claims: Sequence[Claim]
    backend: str
    source: str = ""
    """Where the runs come from, if they were recorded earlier."""
    quick: bool = False
    """Whether runs are shorter, with `--quick`."""
    complete: bool = True
    """False when the reproduction was interrupted or a run failed."""
    interrupted: bool = False
    """True when it was ended by Ctrl-C."""
    failures: list[str] = field(default_factory=list)
    """One line for each run that failed."""

    def judged(self) -> Iterator[Judged]:
        """Every claim with its verdict, in the paper's order."""
        for claim in self.claims:
            choices = [
                choice
                for choice in self.choices
                if any(choice.touches(cell) for cell in claim.cells)
            ]
            yield judge(
                claim,
                self.claim_interval(claim),
                {choice.name: self.claim_interval(claim, choice) for choice in choices},
                {choice.name: self.claim_interval(claim, like=choice) for choice in choices},
            )

    def words(self) -> list[str]:
        """What was found, in sentences. If only part of the paper was run, they say so."""
        about = list(self.paper.summary)
        if about and len(self.claims) < len(self.paper.claims):
            ran = ", ".join(dict.fromkeys(claim.id for claim in self.claims))
            about.insert(
                0, f"This is a part of the paper ({ran}); on the whole paper, narrows says:"
            )
        return [*self.paper.headline(self), *about]

    def agreement(self) -> list[Agreement]:
        """Our metrics against the paper's reference measurements, for the cells that were run."""
        return [entry for entry in self.paper.agreement(self) if entry.interval is not None]

    def document(self) -> dict[str, Any]:
        """This paper's part of the JSON document."""
        return {
            "paper": self.paper.slug,
            "headline": list(self.paper.headline(self)),
            "summary": list(self.paper.summary),
            "seeds": len(self.seeds),
            "sensitivity_rows": [choice.name for choice in self.choices],
            "status": "complete" if self.complete else "partial",
            "source": self.source,
            "failures": list(self.failures),
            "claims": [claim_document(judged, self.backend) for judged in self.judged()],
            "agreement": [_agreement_document(entry) for entry in self.agreement()],
            "tables": [
                {
                    "title": table.title,
                    "columns": list(table.columns),
                    "rows": [list(row) for row in table.rows],
                    "note": table.note,
                }
                for table in self.paper.tables(self)
            ],
        }


PAPER_KEYS = ("paper", "headline", "summary", "seeds", "sensitivity_rows")
"""What the JSON document says about each paper besides its claims."""


def document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The JSON document of `narrows reproduce --json`: claims of all papers in one list."""
    parts = [outcome.document() for outcome in outcomes]
    return {
        "format": FORMAT,
        "status": "complete" if all(outcome.complete for outcome in outcomes) else "partial",
        "papers": [{key: part[key] for key in PAPER_KEYS} for part in parts],
        "claims": [claim for part in parts for claim in part["claims"]],
        "agreement": [entry for part in parts for entry in part["agreement"]],
        "failures": [line for part in parts for line in part["failures"]],
        "tables": [table for part in parts for table in part["tables"]],
    }


def claim_document(judged: Judged, backend: str) -> dict[str, Any]:
    """One claim in the form of the JSON document; unknown numbers are null."""
    claim, interval = judged.claim, judged.interval
    return {
        "id": claim.id,
        "metric": claim.metric,
        "published": claim.published,
        "measured": _finite(interval.mean if interval else None),
        "ci_low": _finite(interval.low if interval else None),
        "ci_high": _finite(interval.high if interval else None),
        "unit": claim.unit,
        "tolerance": claim.tolerance,
        "verdict": str(judged.verdict),
        "seeds": interval.count if interval else 0,
        "seeds_needed": judged.seeds_needed,
        "backend": backend,
        "worded": claim.worded.sentence if claim.worded else None,
        "relation": claim.worded.relation if claim.worded else None,
        "bound": claim.worded.bound if claim.worded else None,
        "flipped_by": judged.flips,
        "read_from": claim.read_from,
        "within_reading": judged.within_reading,
        "note": claim.note,
        "reason": reason(judged),
    }


def reason(judged: Judged) -> str:
    """Why our metric differs from the paper's, if it does and the reason is known."""
    return judged.claim.reason if judged.verdict in DIFFERS else ""


def cells_to_run(
    paper: Paper, claims: Sequence[Claim], choices: Sequence[Choice], against: bool
) -> list[tuple[Choice | None, Cell]]:
    """Every pair of choice (or none) and cell that `claims` need, base runs first.

    `against` adds the cells that only the comparison with reference measurements needs.
    """
    cells = paper.cells_of(claims)
    extra = [cell for cell in paper.cells if cell.name in paper.agreement_cells] if against else []
    base: list[tuple[Choice | None, Cell]] = [
        (None, cell) for cell in paper.cells if cell in cells or cell in extra
    ]
    return base + [
        (choice, cell)
        for choice in choices
        if choice.runs_again
        for cell in cells
        if choice.touches(cell.name)
    ]


def _agreement_document(entry: Agreement) -> dict[str, Any]:
    interval = entry.interval
    return {
        "cell": entry.cell,
        "metric": entry.metric,
        "unit": entry.unit,
        "reference": list(entry.reference),
        "low": entry.low,
        "high": entry.high,
        "measured": _finite(interval.mean if interval else None),
        "ci_low": _finite(interval.low if interval else None),
        "ci_high": _finite(interval.high if interval else None),
        "agrees": entry.agrees,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
