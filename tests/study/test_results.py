"""The study's results, as the documents report them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from narrows.study.dns_transport import study
from narrows.study.dns_transport.design import blocks, level_names
from narrows.study.dns_transport.readme import filled

STUDY = Path(__file__).parents[2] / "python/narrows/study/dns_transport"
RESULT = json.loads((STUDY / "result.json").read_text(encoding="utf-8"))


def test_the_readme_says_what_the_result_says() -> None:
    text = (STUDY / "README.md").read_text(encoding="utf-8")
    assert "<!-- from the study: " in text
    assert filled(text, RESULT) == text


def test_the_cells_are_the_results_and_have_names_that_there_are() -> None:
    cells = pl.read_parquet(STUDY / "cells.parquet")
    assert cells.height == RESULT["cell_count"]
    names = level_names()
    for factor in ("place", "transport", "queue", "load"):
        assert set(cells[factor]) <= set(names[factor])
    assert RESULT["status"] == "complete"


def test_shares_are_shares_and_add_up() -> None:
    cells = pl.read_parquet(STUDY / "cells.parquet")
    for name in ("without_retry_percent", "within_1s_percent", "failed_percent"):
        assert cells[name].is_between(0.0, 100.0).all()
        known = cells.drop_nulls(f"{name}_low")
        assert (known[f"{name}_low"] <= known[name] + 1e-9).all()
        assert (known[name] <= known[f"{name}_high"] + 1e-9).all()
    # Failed queries were answered neither without a retry nor within a second.
    for name in ("without_retry_percent", "within_1s_percent"):
        assert (cells[name] + cells["failed_percent"] <= 100.0 + 1e-6).all()


def test_a_part_is_filled_by_what_it_names() -> None:
    result = {
        "notes": ["One.", "Two."],
        "tables": [
            {
                "heading": "The answer",
                "title": "T",
                "columns": ["a", "b"],
                "rows": [["x", "1"]],
            },
        ],
    }
    text = "a\n<!-- from the study: {} -->\nold\n<!-- end -->\nb\n"
    for what, filling in (
        ("notes", "- One.\n- Two.\n"),
        ("The answer", "T:\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n"),
        ("What an answer costs", ""),
    ):
        part = text.format(what)
        assert filled(part, result) == part.replace("old\n", filling)


def test_the_readme_counts_what_is_run() -> None:
    text = (STUDY / "README.md").read_text(encoding="utf-8")
    for variations, seeds in ((False, study.QUICK_SEEDS), (True, study.SEEDS)):
        runs = seeds * sum(part.combinations for part in blocks({}, variations=variations))
        assert f"{runs if runs < 10_000 else format(runs, ',')}" in text
    assert "<<<<<<<" not in text
