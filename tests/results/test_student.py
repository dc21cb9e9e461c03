"""Student's t against a printed table."""

import math

import pytest

from narrows.results.student import t_half_width, t_quantile


# Abramowitz and Stegun, table 26.10, which gives two-sided 0.2, 0.95 and 0.99.
@pytest.mark.parametrize(
    ("probability", "freedom", "printed"),
    [
        (0.6, 1, 0.325),
        (0.6, 3, 0.277),
        (0.6, 30, 0.256),
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 9, 2.262),
        (0.975, 30, 2.042),
        (0.975, 120, 1.980),
        (0.995, 1, 63.657),
        (0.995, 2, 9.925),
        (0.995, 4, 4.604),
        (0.995, 5, 4.032),
        (0.995, 30, 2.750),
        (0.995, 120, 2.617),
    ],
)
def test_quantiles_are_as_printed(probability: float, freedom: int, printed: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(printed, abs=6e-4)
    assert t_quantile(1.0 - probability, freedom) == pytest.approx(-printed, abs=6e-4)
    assert t_quantile(0.5, freedom) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("probability", [0.0004, 0.2, 0.49, 0.6, 0.975, 0.9999])
def test_with_few_degrees_of_freedom_quantiles_have_closed_forms(probability: float) -> None:
    """Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 2, chapter 28."""
    share = 2.0 * probability - 1.0
    one = math.tan(math.pi * share / 2.0)
    two = share * math.sqrt(2.0 / (1.0 - share * share))
    cosine = math.sqrt(1.0 - share * share)
    four = 2.0 * math.sqrt(math.cos(math.acos(cosine) / 3.0) / cosine - 1.0)
    for freedom, exact in ((1, one), (2, two), (4, math.copysign(four, share))):
        assert t_quantile(probability, freedom) == pytest.approx(exact, rel=1e-6)


def test_the_half_width_of_a_worked_example() -> None:
    # 1, 2, 3: standard deviation 1, two degrees of freedom.
    assert t_half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3.0**0.5, abs=1e-3)
    assert t_half_width([1.0, 3.0]) == pytest.approx(12.706, abs=1e-3)


def test_one_value_has_no_half_width() -> None:
    with pytest.raises(ValueError, match="two values"):
        t_half_width([1.0])


@pytest.mark.parametrize("probability", [0.0, 1.0, 1.5])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(probability, 3)
