"""Intervals of means that have bounds, and of their differences."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean

import pytest

from narrows.results.intervals import Apart, bounded, paired, prediction, welch, within
from narrows.results.student import t_half_width


def test_far_from_the_bounds_it_is_students_interval() -> None:
    values = [49.9, 50.0, 50.2, 50.1]
    half = t_half_width(values)
    for high in (100.0, math.inf):
        ends = within(values, 0.0, high)
        assert ends == pytest.approx((50.05 - half, 50.05 + half), rel=1e-4)


def test_it_stays_between_the_bounds_and_holds_the_mean() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        # Many of them at a bound, or nearly.
        values = [
            draw.choice([0.0, 1e-9, draw.random(), draw.random() ** 8, 1.0 - 1e-9, 1.0])
            for _ in range(draw.randint(2, 6))
        ]
        low, high = within(values, 0.0, 1.0)
        assert 0.0 <= low <= fmean(values) <= high <= 1.0
        mirrored = within([1.0 - value for value in values], 0.0, 1.0)
        assert mirrored == pytest.approx((1.0 - high, 1.0 - low), abs=1e-6)
        low, high = within(values)
        assert 0.0 <= low <= fmean(values) <= high


def test_it_moves_and_grows_with_the_scale() -> None:
    values = [0.2, 0.9, 0.95]
    low, high = within(values, 0.0, 1.0)
    points = within([200.0 * value - 100.0 for value in values], -100.0, 100.0)
    assert points == pytest.approx((200.0 * low - 100.0, 200.0 * high - 100.0))


def test_it_reaches_further_away_from_the_nearer_bound() -> None:
    values = [90.0, 97.0, 99.0]
    low, high = within(values, 0.0, 100.0)
    assert fmean(values) - low > t_half_width(values) > high - fmean(values)


def test_equal_values_have_no_width() -> None:
    assert within([100.0, 100.0], 0.0, 100.0) == (100.0, 100.0)
    assert within([0.0, 0.0]) == (0.0, 0.0)


def test_a_value_out_of_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="not within 0"):
        within([99.0, 101.0], 0.0, 100.0)


def samples(draw: random.Random, *, same_size: bool) -> list[list[float]]:
    """Two samples of shares, many of them at a bound, or nearly."""
    size = draw.randint(2, 6)
    return [
        [
            draw.choice([0.0, 1e-9, draw.random(), 1.0 - draw.random() ** 8, 1.0])
            for _ in range(size if same_size else draw.randint(2, 6))
        ]
        for _ in range(2)
    ]


@pytest.mark.parametrize("interval", [paired, welch])
def test_a_difference_stays_within_what_is_possible(interval: Callable[..., Apart]) -> None:
    draw = random.Random(2)
    for _ in range(2000):
        first, second = samples(draw, same_size=interval is paired)
        difference = fmean(second) - fmean(first)
        for bounds in ((0.0, 1.0), (0.0, math.inf)):
            found = interval(first, second, *bounds)
            assert found.low <= difference + 1e-12 and difference - 1e-12 <= found.high
            # Nothing falls by more than all of it, and nothing rises from below zero.
            for end, at in zip(found[:2], found.firsts, strict=True):
                assert at >= -1e-9
                assert at + end >= -1e-9
                assert max(at, at + end) <= bounds[1] + 1e-9
            other = interval(second, first, *bounds)
            assert (-other.high, -other.low) == pytest.approx(found[:2], abs=1e-9)


def test_far_from_the_bounds_a_difference_has_students_interval() -> None:
    first, second = [49.9, 50.0, 50.2, 50.1], [50.4, 50.3, 50.9, 50.2]
    for interval in (paired, welch):
        for high in (100.0, math.inf):
            plain = interval(first, second)
            assert interval(first, second, 0.0, high)[:2] == pytest.approx(plain[:2], abs=2e-3)


def test_squares_of_the_distances_are_added() -> None:
    """Newcombe's rule for the means of independent samples; Zou and Donner 2008, equation 1."""
    first, second = [96.0, 97.0, 98.0], [97.5, 98.5, 99.5]
    # Student's t with 4 degrees of freedom, from a printed table; both variances are 1.
    half = 2.776 / math.sqrt(3.0)
    (low_1, high_1), (low_2, high_2) = (bounded(mean, half, 0.0, 100.0) for mean in (97.0, 98.5))
    found = welch(first, second, 0.0, 100.0)
    assert found.low == pytest.approx(1.5 - math.hypot(98.5 - low_2, high_1 - 97.0), abs=1e-3)
    assert found.high == pytest.approx(1.5 + math.hypot(97.0 - low_1, high_2 - 98.5), abs=1e-3)


def test_pairs_that_differ_by_the_same_have_no_width_near_a_bound() -> None:
    first = [0.25, 2.0, 0.5]
    found = paired(first, [value + 0.125 for value in first], 0.0)
    assert found[:2] == pytest.approx((0.125, 0.125))
    assert welch(first, [value + 0.125 for value in first], 0.0).low < 0.0


def test_a_single_value_is_set_against_one_more_of_the_others() -> None:
    several = [97.0, 99.0, 99.5]
    half = 4.303 * math.sqrt((1.5**2 + 0.5**2 + 1.0**2) / 2.0) * math.sqrt(4.0 / 3.0)
    least, most = bounded(98.5, half, 0.0, 100.0)
    assert most < 100.0
    found = prediction(several, [100.0], 0.0, 100.0)
    assert found[:2] == pytest.approx((100.0 - most, 100.0 - least), abs=0.01)
    back = prediction([100.0], several, 0.0, 100.0)
    assert back[:2] == pytest.approx((-found.high, -found.low))
