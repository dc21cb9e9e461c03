"""The rule for verdicts: numbers, words, what depends, what is not tested."""

import math

import pytest

from narrows.reproduce.claims import Claim, Measured, Verdict, Worded, judge
from narrows.reproduce.statistics import Interval


def number(published: float = 90.0, tolerance: float = 2.0) -> Claim:
    return Claim(
        "X1",
        "success",
        "%",
        ("cell",),
        lambda runs: runs["cell"]["success"],
        published=published,
        tolerance=tolerance,
    )


def worded(relation: str, bound: float) -> Claim:
    assert relation in ("at least", "at most")
    return Claim(
        "X2",
        "loss",
        "points",
        ("cell",),
        lambda runs: runs["cell"]["loss"],
        worded=Worded("far worse", "at least" if relation == "at least" else "at most", bound),
    )


def interval(low: float, high: float, count: int = 10) -> Interval:
    return Interval((low + high) / 2.0, low, high, count)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (88.5, 91.5, Verdict.HOLDS),
        (88.0, 92.0, Verdict.HOLDS),  # the ends are inside
        (87.9, 91.0, Verdict.FAILS),  # the mean is inside, the interval is not
        (93.0, 94.0, Verdict.FAILS),
    ],
)
def test_a_number_holds_when_the_whole_interval_is_within_the_tolerance(
    low: float, high: float, verdict: Verdict
) -> None:
    assert judge(number(), interval(low, high)).verdict is verdict


@pytest.mark.parametrize(
    ("relation", "low", "high", "verdict"),
    [
        ("at least", 5.1, 9.0, Verdict.HOLDS),
        ("at least", 4.9, 9.0, Verdict.FAILS),  # not at 95 %
        ("at most", 1.0, 5.0, Verdict.HOLDS),
        ("at most", 1.0, 5.1, Verdict.FAILS),
    ],
)
def test_a_worded_claim_holds_when_the_whole_interval_is_on_the_right_side(
    relation: str, low: float, high: float, verdict: Verdict
) -> None:
    assert judge(worded(relation, 5.0), interval(low, high)).verdict is verdict


def test_a_row_that_turns_holds_into_fails_makes_it_depend() -> None:
    judged = judge(number(), interval(89, 91), {"a": interval(89, 91), "b": interval(80, 81)})
    assert judged.verdict is Verdict.DEPENDS
    assert judged.flips == ["b"]


def test_a_row_that_turns_fails_into_holds_makes_it_depend() -> None:
    judged = judge(number(), interval(80, 81), {"a": interval(89, 91)})
    assert judged.verdict is Verdict.DEPENDS
    assert judged.flips == ["a"]


def test_rows_that_agree_leave_the_verdict() -> None:
    assert judge(number(), interval(80, 81), {"a": interval(70, 71)}).verdict is Verdict.FAILS
    assert judge(number(), interval(89, 91), {"a": None}).verdict is Verdict.HOLDS


def test_without_an_interval_nothing_is_tested() -> None:
    assert judge(number(), None).verdict is Verdict.NOT_TESTED
    one_run = Interval(90.0, -math.inf, math.inf, 1)
    assert judge(number(), one_run, {"a": interval(89, 91)}).verdict is Verdict.NOT_TESTED


def test_the_difference_is_ours_less_the_published() -> None:
    assert judge(number(), interval(90.5, 91.5)).difference == 1.0
    assert judge(worded("at most", 1.0), interval(0, 1)).difference is None


def test_a_claim_is_a_number_or_words() -> None:
    with pytest.raises(ValueError, match="tolerance"):
        Claim("X", "m", "%", ("c",), lambda _: 0.0, published=1.0)
    with pytest.raises(ValueError, match="either"):
        Claim("X", "m", "%", ("c",), lambda _: 0.0)


def test_a_deviation_is_judged_by_the_chi_square_interval() -> None:
    claim = Claim(
        "X",
        "sd",
        "points",
        ("c",),
        lambda runs: runs["c"]["x"],
        published=1.0,
        tolerance=0.9,
        statistic="deviation",
    )
    spread = claim.interval([-1.0, 0.0, 1.0])
    assert spread.mean == pytest.approx(1.0)
    assert claim.test(spread) is Verdict.FAILS  # up to 6.3 with three values
    assert claim.measure({"c": Measured({"x": 4.0})}) == 4.0
