"""Two ratio analyses compared: sentences, JSON, failures, and medians of samples."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from narrows.ratio.comparison import RatioComparison, Row, _failure_rows, _medians
from narrows.ratio.density import nrd0, sheather_jones
from narrows.results.intervals import newcombe


def of_rows(*rows: Row) -> RatioComparison:
    analyses = cast("Any", (SimpleNamespace(asked=[]), SimpleNamespace(asked=[])))
    return RatioComparison(("a", "b"), analyses, rows, paired=True)


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((-0.01, 0.5), False),
        ((-0.5, 0.01), False),
        ((0.01, 0.5), True),
        ((-0.5, -0.01), True),
        ((0.0, 0.5), False),
        (None, False),
    ],
)
def test_only_an_interval_without_zero_is_a_difference(
    interval: tuple[float, float] | None, said: bool
) -> None:
    row = Row("s", "median ratio", "", 2.0, 2.25, interval)
    found = of_rows(row).sentences()
    assert (found != ["No difference is larger than chance explains."]) == said
    if said:
        assert found[0].startswith("s: median ratio is higher by 0.25 (95 %: ")


def test_the_document_has_every_row() -> None:
    row = Row("s", "ratio above 4", " %", 1.0, 3.5, (2.0, 3.0))
    assert of_rows(row, row).document() == {
        "labels": ["a", "b"],
        "paired": True,
        "rows": [
            {
                "server": "s",
                "what": "ratio above 4",
                "unit": "%",
                "first": 1.0,
                "second": 3.5,
                "difference": 2.5,
                "interval": (2.0, 3.0),
            }
        ]
        * 2,
    }


def test_unanswered_queries_are_compared_as_second_minus_first() -> None:
    def analysis(failed: int, asked: int) -> Any:
        share = failed / asked
        facts = {"server": "s", "failed": failed, "asked": asked, "share": share}
        return SimpleNamespace(failures=[SimpleNamespace(**facts, transport="udp")])

    (row,) = _failure_rows("s", analysis(3, 50), analysis(12, 40), "s", "s")
    low, high, _ = newcombe((3, 12), (50, 40))
    assert (row.first, row.second) == (pytest.approx(6.0), pytest.approx(30.0))
    assert row.interval == (pytest.approx(100.0 * low), pytest.approx(100.0 * high))
    assert 0.0 < low < 0.24 < high


def test_the_median_of_a_drawn_sample_is_its_lower_middle_value() -> None:
    values, owners = np.array([5.0, 1.0, 3.0]), np.array([0, 1, 2])
    draws = np.array([[1, 1, 1], [2, 0, 0], [0, 1, 1], [3, 1, 0], [0, 0, 0]])
    found = _medians(values, owners, draws)
    assert found[:4].tolist() == [3.0, 5.0, 1.0, 5.0]
    assert np.isnan(found[4])


def test_the_bandwidth_of_ratios_that_hardly_differ_is_the_rule_of_thumb() -> None:
    # More than half are equal, so their quartiles are, too.
    same = np.concatenate([np.full(40, 2.0), [2.1, 2.2, 2.3]])
    assert sheather_jones(same) == nrd0(same)
    few = np.array([2.0, 2.1])
    assert sheather_jones(few) == nrd0(few)
