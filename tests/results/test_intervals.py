"""Intervals of means that have bounds."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from narrows.results.intervals import within
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
