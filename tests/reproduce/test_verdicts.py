"""The rule for verdicts: numbers, words, what depends, what is not tested."""

import math
from dataclasses import replace

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
        (87.9, 91.0, Verdict.UNDECIDED),  # the mean is inside, the interval is not
        (91.9, 97.0, Verdict.UNDECIDED),  # the mean is outside, the interval is not
        (92.1, 94.0, Verdict.FAILS),
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
        ("at least", 4.9, 9.0, Verdict.UNDECIDED),  # not at 95 %
        ("at least", 1.0, 4.9, Verdict.FAILS),
        ("at most", 1.0, 5.0, Verdict.HOLDS),
        ("at most", 1.0, 5.1, Verdict.UNDECIDED),
        ("at most", 5.1, 9.0, Verdict.FAILS),
    ],
)
def test_a_worded_claim_holds_when_the_whole_interval_is_on_the_right_side(
    relation: str, low: float, high: float, verdict: Verdict
) -> None:
    assert judge(worded(relation, 5.0), interval(low, high)).verdict is verdict


def test_a_choice_that_turns_holds_into_fails_makes_it_depend() -> None:
    judged = judge(number(), interval(89, 91), {"a": interval(89, 91), "b": interval(80, 81)})
    assert judged.verdict is Verdict.DEPENDS
    assert judged.flips == ["b"]


def test_a_choice_that_turns_fails_into_holds_makes_it_depend() -> None:
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
    assert claim.test(spread) is Verdict.UNDECIDED  # up to 6.3 with three values
    # With 0.52 times to 1.9 times the deviation: chi-square's 19.02 and 2.70 at 9 degrees would
    # give 0.69 to 1.83, at 10 (20.48 and 3.25) 0.70 to 1.75, at 8 (17.53 and 2.18) 0.68 to 1.92.
    assert claim.seeds_to_decide(spread) == 10
    assert claim.measure({"c": Measured({"x": 4.0})}) == 4.0


def test_a_choice_that_is_undecided_flips_nothing() -> None:
    assert judge(number(), interval(89, 91), {"a": interval(87, 91)}).verdict is Verdict.HOLDS
    undecided = judge(number(), interval(87, 91), {"a": interval(70, 71)})
    assert (undecided.verdict, undecided.flips) == (Verdict.UNDECIDED, [])


def test_an_undecided_claim_says_how_many_seeds_it_takes() -> None:
    # Four values of mean 90.5 and half-width 2: 3.182 s / 2, so s is 1.257. The tolerance ends 1.5
    # away: 2.571 s / sqrt(6) is 1.32, 2.776 s / sqrt(5) is 1.56.
    judged = judge(number(), interval(88.5, 92.5, 4))
    assert judged.verdict is Verdict.UNDECIDED
    assert judged.seeds_needed == 6
    # It has enough seeds; exactly on the edge, it would never be decided.
    assert judge(number(), interval(89, 91)).seeds_needed is None
    assert judge(number(), interval(90, 94)).seeds_needed is None


def test_a_value_that_chose_a_setting_is_fitted_unless_it_fails_all_the_same() -> None:
    fitted = replace(number(), fitted=True)
    assert judge(fitted, interval(89, 91), {"a": interval(70, 71)}).verdict is Verdict.FITTED
    assert judge(fitted, interval(87, 91)).verdict is Verdict.FITTED
    assert judge(fitted, interval(80, 81)).verdict is Verdict.FAILS
