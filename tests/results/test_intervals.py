"""Intervals of means that have bounds, and of their differences."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean

import pytest

from narrows.results.intervals import (
    Apart,
    bounded,
    half_of,
    newcombe,
    of_seeds,
    paired,
    prediction,
    welch,
    wilson,
    within,
)
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


@pytest.mark.parametrize("interval", [paired, welch])
def test_a_bound_does_not_make_chance_certain(interval: Callable[..., Apart]) -> None:
    """Two seeds of five with one timeout, against none."""
    first, second = [0.0] * 5, [0.0, 0.0, 1.0, 0.0, 1.0]
    # Student's t with 4 degrees of freedom, from a printed table.
    half = 2.776 * math.sqrt(0.3 / 5.0)
    for bounds in ((-math.inf, math.inf), (0.0, math.inf), (0.0, 100.0)):
        found = interval(first, second, *bounds)
        assert found[:2] == pytest.approx((0.4 - half, 0.4 + half), abs=1e-3)
        assert found.low < 0.0 < found.high


def test_three_runs_without_a_rare_event_do_not_exclude_it() -> None:
    """Samples of different sizes: Student's t with a pooled variance is wider than Welch's here."""
    rare = [0.0] * 14 + [1.0] * 6
    found = welch([0.0] * 3, rare)
    # 14 * 0.3**2 + 6 * 0.7**2 is 4.2; 2.080 is Student's factor for 21 degrees, from a table.
    half = 2.080 * math.sqrt(4.2 / 21.0 * (1.0 / 3.0 + 1.0 / 20.0))
    assert found[:2] == pytest.approx((0.3 - half, 0.3 + half), abs=1e-3)
    # Where the small sample varies more, Welch's is wider: 2.069 * 0.5 would be Student's.
    many = [0.0, 0.02] * 10
    assert welch([-1.0, 1.0], many).high > 1.0


def test_pairs_that_differ_by_the_same_have_no_width_near_a_bound() -> None:
    first = [0.25, 2.0, 0.5]
    found = paired(first, [value + 0.125 for value in first], 0.0)
    assert found[:2] == pytest.approx((0.125, 0.125))
    assert welch(first, [value + 0.125 for value in first], 0.0).low < 0.0


def test_a_single_value_is_set_against_one_more_of_the_others() -> None:
    several = [97.0, 99.0, 99.5]
    half = 4.303 * math.sqrt((1.5**2 + 0.5**2 + 1.0**2) / 2.0) * math.sqrt(4.0 / 3.0)
    found = prediction(several, [100.0], 0.0, 100.0)
    assert found[:2] == pytest.approx((1.5 - half, 1.5 + half), abs=0.01)
    back = prediction([100.0], several, 0.0, 100.0)
    assert back[:2] == pytest.approx((-found.high, -found.low))


def test_seeds_have_an_interval_if_enough_of_them_differ() -> None:
    """Student's factors for one and two degrees of freedom, from a printed table."""
    assert of_seeds([5.0]) is None
    assert of_seeds([5.0, 5.0, 5.0]) is None
    # Above one bound, it is cut off there.
    assert of_seeds([1.0, 3.0]) == pytest.approx((0.0, 2.0 + 12.706), abs=1e-3)
    half = 4.303 / math.sqrt(3.0)
    assert of_seeds([9.0, 10.0, 11.0]) == pytest.approx((10.0 - half, 10.0 + half), abs=1e-3)
    # Between two bounds, it takes three, of which at most half are at one bound.
    assert of_seeds([1.0, 2.0], 0.0, 100.0) is None
    assert of_seeds([1.0, 2.0, 3.0], 0.0, 100.0) == within([1.0, 2.0, 3.0], 0.0, 100.0)
    for bound in (0.0, 100.0):
        assert of_seeds([bound, bound, 1.0], 0.0, 100.0) is None
        half_there = [bound, bound, 1.0, 2.0]
        assert of_seeds(half_there, 0.0, 100.0) == within(half_there, 0.0, 100.0)


@pytest.mark.parametrize("bounds", [(-math.inf, math.inf), (-2.0, math.inf), (-2.0, 50.0)])
def test_the_half_width_follows_from_the_upper_end(bounds: tuple[float, float]) -> None:
    for mean, half in ((3.0, 0.0), (3.0, 1.5), (40.0, 4.0)):
        _, most = bounded(mean, half, *bounds)
        assert half_of(mean, most, *bounds) == pytest.approx(half)


def test_the_first_mean_allows_the_difference() -> None:
    """Differences of -0.01 and 0.03: 0.01 less or more 12.706 times 0.02."""
    for mean, firsts in ((0.1, (0.2441, 0.1)), (0.9, (0.9, 0.7359))):
        found = paired([mean, mean], [mean - 0.01, mean + 0.03], 0.0, 1.0)
        assert found[:2] == pytest.approx((-0.2441, 0.2641), abs=1e-4)
        assert found.firsts == pytest.approx(firsts, abs=1e-4)
    # No two means between 10 and 12 differ by more than 2.
    assert paired([10.0, 12.0], [12.0, 10.0], 10.0, 12.0)[:2] == (-2.0, 2.0)


def test_a_mean_near_a_bound_allows_a_difference_away_from_it() -> None:
    assert paired([0.02] * 2, [0.52] * 2, 0.0, 1.0).firsts == pytest.approx((0.02, 0.02))
    assert paired([0.98] * 2, [0.48] * 2, 0.0, 1.0).firsts == pytest.approx((0.98, 0.98))
    fall, rise = newcombe((9, 1), (10, 10)), newcombe((1, 9), (10, 10))
    assert fall.firsts == pytest.approx((max(0.9, -fall.low), 0.9))
    assert rise.firsts == pytest.approx((0.1, min(0.1, 1.0 - rise.high)))


def test_a_proportion_has_a_total_and_parts_of_it() -> None:
    """Of one trial, Wilson's interval ends at 1 / (1 + z^2)."""
    end = 1.0 / (1.0 + 1.959964**2)
    assert wilson(1, 1) == pytest.approx((end, 1.0))
    assert wilson(0, 1) == pytest.approx((0.0, 1.0 - end))
    for successes, total in ((0, 0), (0, -1), (-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="no proportion"):
            wilson(successes, total)


def test_welchs_degrees_of_freedom() -> None:
    """One if only one of two samples of two varies, and 20 for eleven each, alike."""
    assert welch([0.0, 2.0], [5.0, 5.0])[:2] == pytest.approx((4 - 12.706, 4 + 12.706), abs=1e-3)
    eleven = [0.0] * 5 + [1.0] + [2.0] * 5
    half = 2.086 * math.sqrt(2.0 / 11.0)
    assert welch(eleven, eleven)[:2] == pytest.approx((-half, half), abs=5e-4)
    tiny = [value / 100.0 for value in eleven]
    assert welch(tiny, tiny)[:2] == pytest.approx((-half / 100.0, half / 100.0), abs=5e-6)
    assert welch([1.0, 1.0], [2.0, 2.0])[:2] == (1.0, 1.0)


def test_two_values_each_are_enough() -> None:
    """Equal variances of 2: two degrees of freedom."""
    half = 4.303 * math.sqrt(2.0)
    assert welch([0.0, 2.0], [10.0, 12.0])[:2] == pytest.approx((10 - half, 10 + half), abs=1e-3)
    with pytest.raises(ValueError, match="two values or more"):
        welch([0.0], [10.0, 12.0])
