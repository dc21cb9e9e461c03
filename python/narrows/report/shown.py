"""Declared plots of runs, evaluated for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from narrows.records.plotted import Declaration
from narrows.report.evaluate import Case, Data, evaluate
from narrows.report.page import Shown
from narrows.report.source import NONE
from narrows.results import Run


def shown_of(
    declared: Declaration, runs: Mapping[str, Run], others: Mapping[str, Sequence[Run]] = NONE
) -> Shown:
    """A plot of runs by label, with their other seeds."""
    return shown(declared, cases_of(runs, others))


def cases_of(runs: Mapping[str, Run], others: Mapping[str, Sequence[Run]] = NONE) -> Sequence[Case]:
    """Runs by label, with their other seeds, as plots need them."""
    return [
        Case(label, [Data(each.tables, each.end_s) for each in (run, *others.get(label, ()))])
        for label, run in runs.items()
    ]


def shown(declared: Declaration, cases: Sequence[Case]) -> Shown:
    """A plot of cases."""
    return Shown(declared.name, evaluate(declared, cases), declared.alt, declared.caption)
