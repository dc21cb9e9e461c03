"""The rows of the sets in docs/ give the summaries that stand above them."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from narrows.agreement import METRICS, MODERN, drawn
from narrows.agreement.conduct import LUCK, SHARE, WITHIN, words
from narrows.agreement.home import drawn as drawn_home
from narrows.agreement.modern import drawn as drawn_modern

DOCS = Path(__file__).parents[2] / "docs"

CLASSIC_ROWS, MODERN_ROWS, HOME_ROWS = (
    json.loads((DOCS / f"kernel-agreement{name}.json").read_text(encoding="utf-8"))
    for name in ("", "-7", "-home")
)
SETS = pytest.mark.parametrize(
    "rows", [CLASSIC_ROWS, MODERN_ROWS, HOME_ROWS], ids=["classic", "modern", "home"]
)


def summaries(rows: dict[str, Any]) -> list[tuple[float, list[dict[str, Any]]]]:
    """Each summary, with the multiple of the bounds of its draws."""
    found = [(1.0, rows["metrics"])]
    return found + ([(2.0, rows["metrics_at_2_bounds"])] if "metrics_at_2_bounds" in rows else [])


def factor(what: str) -> float:
    """The multiple of the bounds of a draw, from its words."""
    return 2.0 if " bbr" in what else 1.0


@SETS
def test_the_summary_follows_from_the_rows(rows: dict[str, Any]) -> None:
    own = {metric.name: metric for metric in METRICS}
    assert len(rows["comparisons"]) == rows["draws"] and rows["complete"]
    for multiple, summary in summaries(rows):
        counted = [
            row
            for row in rows["comparisons"]
            if not row["left_out"] and factor(row["what"]) == multiple
        ]
        for entry in summary:
            metric = own[entry["metric"]]
            judged = [
                row
                for row in counted
                if metric.name in row["differences"]
                and not (metric.name.startswith("response") and row["at_the_jump"])
            ]
            values = [abs(row["differences"][metric.name]) for row in judged]
            assert entry["draws"] == len(values)
            chance = fmean(row["by_chance"][metric.name] for row in judged)
            bound = max(multiple * metric.bound_shown, LUCK * chance)
            within = sum(value <= WITHIN * bound for value in values) / len(values)
            assert entry["mean_absolute_difference"] == pytest.approx(fmean(values), rel=1e-4)
            assert entry["bound"] == pytest.approx(bound, rel=1e-4)
            assert entry["within_twice_percent"] == pytest.approx(100 * within, rel=1e-4)
            assert entry["agrees"] is (fmean(values) <= bound and within >= SHARE)


@SETS
def test_the_differences_follow_from_both_sides(rows: dict[str, Any]) -> None:
    for row in rows["comparisons"]:
        for metric in METRICS:
            if metric.name in row["differences"]:
                by = metric.difference(row["kernel"][metric.name], row["sim"][metric.name])
                reported = row["differences"][metric.name]
                # Rows have six digits.
                assert reported == pytest.approx(by, rel=1e-2, abs=2e-3)


def test_the_rows_of_linux_7_are_the_draws_of_its_seed() -> None:
    rows = MODERN_ROWS
    assert rows["distribution"] == MODERN.name and rows["set"] == "sealed"
    assert rows["kernel"]["way"] == "7" and rows["kernel"]["version"].startswith("7.")
    assert rows["kernel"]["virtual_time"] is True
    for number, row in enumerate(rows["comparisons"]):
        assert (row["draw"], row["what"]) == (number, words(drawn_modern(rows["seed"], number)))


def test_the_rows_of_linux_6_are_the_draws_of_its_seed() -> None:
    for number, row in list(enumerate(CLASSIC_ROWS["comparisons"]))[::10]:
        assert row["what"] == words(drawn(CLASSIC_ROWS["seed"], number))


def test_the_rows_of_home_are_the_draws_of_its_seed() -> None:
    assert HOME_ROWS["distribution"] == "home" and HOME_ROWS["set"] == "sealed"
    for number, row in enumerate(HOME_ROWS["comparisons"]):
        assert (row["draw"], row["what"]) == (number, words(drawn_home(HOME_ROWS["seed"], number)))
