"""The reproduction of L4S measurements: its rows, settings and metrics."""

from __future__ import annotations

import math

import pytest

from narrows.reproduce import select
from narrows.reproduce.claims import Verdict
from narrows.reproduce.l4s_2022 import PAPER
from narrows.reproduce.l4s_2022.cells import FAIR_QUEUES
from narrows.reproduce.l4s_2022.claims import tolerance
from narrows.reproduce.l4s_2022.published import FAIRNESS, NUMBERED, OVERLOAD, mixed
from narrows.reproduce.runner import reproduce


def test_each_row_of_the_sources_is_a_cell_with_claims() -> None:
    rows = mixed()
    assert len(rows) == 48
    assert len({row.cell for row in rows}) == 48
    named = {row.id.removeprefix("L4S-") for row in rows}
    assert set(NUMBERED.values()) <= named
    cells = {cell.name for cell in PAPER.cells}
    claimed = {name for claim in PAPER.claims for name in claim.cells}
    assert claimed == cells
    assert len(cells) == 48 + len(OVERLOAD) + len(FAIRNESS)


def test_a_row_is_what_the_authors_published() -> None:
    """D1 and D19 of the raw data; H1 of the README."""
    by_id = {row.id: dict(row.values) for row in mixed()}
    assert by_id["L4S-D1"]["rate_ecn"] == 19.92
    assert by_id["L4S-D1"]["marks_ecn_pct"] == 6.337
    assert by_id["L4S-D19"]["delay_classic_p99"] == 8.454
    assert "rate_classic" not in by_id["L4S-D8"]
    assert FAIRNESS[0].rates == (12.65, 34.57)


@pytest.mark.parametrize(
    ("metric", "published", "low_delay", "expected"),
    [
        ("rate_ecn", 20.0, True, 2.0),
        ("rate_classic", 0.02, True, 0.05),
        ("delay_ecn_mean", 0.3, True, 0.15),
        ("delay_ecn_mean", 15.0, True, 3.75),
        ("delay_ecn_mean", 5.0, False, 0.75),
        ("delay_classic_p99", 20.0, True, 3.0),
        ("marks_ecn_pct", 6.0, True, 1.2),
        ("drops_classic_pct", 0.1, True, 0.05),
        ("drops_ecn_pct", 45.0, True, 9.0),
    ],
)
def test_tolerances_are_those_that_were_set(
    metric: str, published: float, low_delay: bool, expected: float
) -> None:
    assert tolerance(metric, published, low_delay=low_delay) == pytest.approx(expected)


def test_red_has_tcs_advice_for_what_is_not_given() -> None:
    assert 'min = "12500 B", max = "37500 B"' in FAIR_QUEUES["red-150kB"]
    assert "burst = 20," in FAIR_QUEUES["red-150kB"]


def test_a_quick_row_measures_everything_that_is_published() -> None:
    ((paper, claims),) = select(["L4S-D1"])
    outcome = reproduce(paper, claims=claims, seeds=2, quick=True)
    assert not outcome.failures
    judged = list(outcome.judged())
    assert len(judged) == 9
    assert all(each.interval is not None for each in judged)
    assert Verdict.NOT_TESTED not in {each.verdict for each in judged}
    found = {each.claim.metric.rpartition(": ")[2]: each.interval for each in judged}
    utilisation = found["utilisation"]
    assert utilisation is not None and 97.0 < utilisation.mean < 100.5
    low, classic = found["ECN packets' mean delay"], found["classic packets' mean delay"]
    assert low is not None and classic is not None
    assert low.mean < 1.0 < 5.0 < classic.mean
    assert not math.isnan(outcome.values("dualpi2-cubic-5-5", "marks_ecn_pct")[0])
