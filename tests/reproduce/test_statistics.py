"""Intervals against printed tables and against the paper's own arithmetic."""

import math

import pytest

from narrows.reproduce.statistics import (
    bounded_interval,
    chi_square_quantile,
    deviation_interval,
    normal_interval,
    scaled_interval,
    t_interval,
)


# Abramowitz and Stegun, Table 26.8.
@pytest.mark.parametrize(
    ("probability", "freedom", "printed"),
    [
        (0.025, 2, 0.0506356),
        (0.975, 2, 7.37776),
        (0.025, 9, 2.70039),
        (0.975, 9, 19.0228),
        (0.5, 30, 29.3360),
    ],
)
def test_chi_square_agrees_with_the_printed_table(
    probability: float, freedom: int, printed: float
) -> None:
    assert chi_square_quantile(probability, freedom) == pytest.approx(printed, rel=1e-5)


def _three_values(mean: float, deviation: float) -> list[float]:
    # mean - s, mean, mean + s have the sample standard deviation s exactly.
    return [mean - deviation, mean, mean + deviation]


# Table III of Harhalakis et al., and Student's t for the same three samples.
@pytest.mark.parametrize(
    ("mean", "deviation", "printed", "student"),
    [(89.91, 0.28618, 0.43, 1.64), (87.95, 0.30139, 0.45, 1.73), (85.00, 0.42665, 0.63, 2.44)],
)
def test_the_papers_intervals_follow_from_its_deviations(
    mean: float, deviation: float, printed: float, student: float
) -> None:
    values = _three_values(mean, deviation)
    assert round(normal_interval(values, 0.99).half_width, 2) == printed
    assert t_interval(values, 0.99).half_width == pytest.approx(student, abs=0.006)


def test_the_t_interval_of_a_worked_example() -> None:
    # 1..5: mean 3, sd sqrt(2.5), half-width 2.776 * sqrt(2.5 / 5).
    interval = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert interval.mean == 3.0
    assert interval.half_width == pytest.approx(2.776 * math.sqrt(0.5), abs=1e-3)
    assert interval.count == 5


def test_a_share_has_an_interval_of_shares() -> None:
    # Three runs of paper R: Student's interval ends at 106 %.
    values = [80.0, 68.0, 91.0]
    assert t_interval(values).high > 100.0
    interval = bounded_interval(values, 0.0, 100.0)
    assert 0.0 < interval.low < interval.mean < interval.high < 100.0
    # On the logit scale, where the delta method takes it: 0.7967 +- 4.303 s / sqrt(3).
    mean = sum(values) / 300.0
    half = t_interval(values).half_width / 100.0 / (mean * (1.0 - mean))
    logit = math.log(mean / (1.0 - mean))
    ends = [100.0 / (1.0 + math.exp(-(logit + sign * half))) for sign in (-1, 1)]
    assert [interval.low, interval.high] == pytest.approx(ends)
    # Rounding may put a whole share a little above 100 %.
    assert bounded_interval([100.0 + 1e-13, 100.0], 0.0, 100.0).high == pytest.approx(100.0)


def test_more_seeds_scale_an_interval_between_bounds() -> None:
    few = bounded_interval([0.0, 4.0, 6.0], 0.0, math.inf)
    assert few.low == 0.0
    # As many values as there are give the same interval, although its lower end is the bound.
    same = scaled_interval(few, 3, "mean", (0.0, math.inf))
    assert (same.low, same.high) == pytest.approx((few.low, few.high))
    many = scaled_interval(few, 1000, "mean", (0.0, math.inf))
    plain = scaled_interval(t_interval([0.0, 4.0, 6.0]), 1000, "mean")
    # Far from the bound it is Student's.
    assert (many.low, many.high) == pytest.approx((plain.low, plain.high), rel=0.01)


def test_one_value_has_no_interval() -> None:
    assert t_interval([7.0]).half_width == math.inf
    assert not t_interval([7.0]).inside(0.0, 100.0)


def test_the_deviation_of_three_values_is_known_within_a_factor_of_twelve() -> None:
    interval = deviation_interval([-1.0, 0.0, 1.0])
    assert interval.mean == pytest.approx(1.0)
    assert interval.low == pytest.approx(0.5207, abs=1e-3)
    assert interval.high == pytest.approx(6.285, abs=1e-2)


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_no_interval_from_nothing(values: list[float]) -> None:
    with pytest.raises(ValueError):
        t_interval(values)
