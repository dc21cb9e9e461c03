"""Densities, peaks, intervals and lines against closed forms and simulated truths."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from narrows.ratio.density import TOP, density, histogram, nrd0, over_the_day, sheather_jones
from narrows.ratio.peaks import find_peaks, half_sample_mode, peaks_of
from narrows.ratio.regression import line_through, say_line
from narrows.ratio.resampling import of_medians, of_shares

RNG = np.random.Generator(np.random.PCG64(7))
TWO = 2.0 + 0.05 * RNG.standard_normal(4000)
THREE = 3.0 + 0.05 * RNG.standard_normal(4000)
BOTH = np.concatenate([TWO, THREE])
ALONE = np.arange(8000)


NORMAL = np.array([NormalDist().inv_cdf((i + 0.5) / 5000) for i in range(5000)])
# The bandwidth with the least mean integrated square error for a normal density (Silverman 1986,
# equation 3.28): (4/3)^(1/5) of its standard deviation, times n^(-1/5).
BEST = (4.0 / 3.0) ** 0.2


@pytest.mark.parametrize("deviation", [0.05, 0.2])
def test_the_bandwidth_is_the_best_one_for_a_normal_density(deviation: float) -> None:
    found = sheather_jones(5.0 + deviation * NORMAL)
    assert found == pytest.approx(BEST * deviation * 5000**-0.2, rel=0.1)


def test_the_bandwidth_is_the_best_one_for_two_peaks() -> None:
    # Each of two peaks far apart has half of the ratios, and the same form.
    both = np.concatenate([2.0 + 0.05 * NORMAL, 3.0 + 0.05 * NORMAL])
    assert sheather_jones(both) == pytest.approx(BEST * 0.05 * 5000**-0.2, rel=0.15)
    # The rule of thumb takes the distance between them for their width.
    assert nrd0(both) > 5 * sheather_jones(both)


def test_a_crowd_beyond_the_plot_does_not_hide_the_peak_at_three() -> None:
    full = np.concatenate([THREE[:80], 3.0 + RNG.exponential(15.0, 80)])
    assert nrd0(full) > 1.0
    peaks = find_peaks(density(full), full)
    assert peaks[0].ratio == pytest.approx(3.0, abs=0.05)


def test_the_rule_of_thumb_is_rs() -> None:
    values = np.array([1.0, 2.0, 2.0, 2.0, 10.0])
    # IQR 0: R takes the standard deviation.
    assert nrd0(values) == pytest.approx(0.9 * np.std(values, ddof=1) * 5**-0.2)
    wide = np.concatenate([TWO, [1000.0]])
    assert nrd0(wide) < 0.02


def test_the_density_is_the_sum_of_kernels() -> None:
    ratios = np.array([1.5, 2.0, 2.02, 3.1])
    smooth = density(ratios, 0.1)
    for at in (1.4, 2.0, 2.5, 3.1):
        kernels = np.exp(-0.5 * ((at - ratios) / 0.1) ** 2) / (0.1 * np.sqrt(2 * np.pi))
        found = np.interp(at, smooth.ratio, smooth.density)
        assert found == pytest.approx(kernels.mean(), rel=2e-3, abs=1e-6)
    assert np.trapezoid(smooth.density, smooth.ratio) == pytest.approx(1.0, abs=1e-3)


def test_ratios_beyond_the_plot_count_for_the_scale() -> None:
    smooth = density(np.array([2.0, 2.0, 50.0, 70.0]), 0.1)
    assert np.trapezoid(smooth.density, smooth.ratio) == pytest.approx(0.5, abs=1e-3)
    _, percent, beyond = histogram(np.array([2.0, 9.999, TOP, 50.0]))
    assert (percent.sum(), beyond) == (50.0, 50.0)


def test_the_default_bandwidth_keeps_two_and_three_apart() -> None:
    peaks = find_peaks(density(BOTH), BOTH)
    assert [round(peak.ratio, 1) for peak in peaks] == [2.0, 3.0]
    assert [round(peak.share, 2) for peak in peaks] == [0.5, 0.5]


def test_peaks_that_a_machines_delays_make_are_one() -> None:
    """A path of 40 ms whose TCP answers come 2 ms late now and then: 2.00 and 2.05."""
    noise = 0.004 * NORMAL[::5]
    near = np.concatenate([2.0 + noise[:700], 2.0 + noise[300:], 2.05 + noise[200:800]])
    (peak,) = find_peaks(density(near), near)
    assert peak.ratio == pytest.approx(2.0, abs=0.01)
    assert peak.share == 1.0
    # A fixed delay of 12 ms at 40 ms is another peak, however narrow both are.
    far = np.concatenate([2.0 + noise, 2.3 + noise])
    assert [round(peak.ratio, 1) for peak in find_peaks(density(far), far)] == [2.0, 2.3]
    # A tenth of the lower one tells them apart.
    for factor, count in ((1.097, 1), (1.103, 2)):
        two = np.concatenate([2.0 + noise, 2.0 * factor + noise])
        assert len(find_peaks(density(two), two)) == count


def test_counts_over_the_day() -> None:
    seconds, ratios = np.array([0.0, 1799.0, 1800.0]), np.array([2.0, 2.04, 3.0])
    times, _, counts = over_the_day(seconds, ratios)
    assert times.tolist() == [0.0, 1800.0]
    assert counts[0, round(2.0 / 0.05)] == 2
    assert counts[1, round(3.0 / 0.05)] == 1
    assert counts.sum() == 3


def test_the_half_sample_mode_stays_where_most_are() -> None:
    ranked = np.sort(np.concatenate([TWO, THREE[:1500], np.linspace(5, 500, 500)]))
    assert half_sample_mode(ranked) == pytest.approx(2.0, abs=0.05)
    assert half_sample_mode(np.array([4.0])) == 4.0
    # Half of six is three, and of five, too; the nearest two are elsewhere.
    assert half_sample_mode(np.array([0.0, 0.45, 1.0, 1.9, 2.2, 3.0])) == pytest.approx(0.225)
    assert half_sample_mode(np.array([0.0, 0.45, 1.0, 1.9, 2.3])) == pytest.approx(0.225)
    assert half_sample_mode(np.array([1.0, 2.0, 3.0])) == 2.0
    assert half_sample_mode(np.array([1.0, 2.0, 2.5])) == 2.25


def test_intervals_grow_when_the_pairs_of_a_probe_are_alike() -> None:
    hits = BOTH > 2.5
    alone = of_shares(hits, ALONE)
    # Ten probes whose pairs are all the same are worth only ten pairs.
    alike = of_shares(np.repeat(np.arange(10) >= 5, 800), np.repeat(np.arange(10), 800))
    assert alone is not None
    assert alike is not None
    # The normal approximation's half width for 8,000 independent pairs is 0.011.
    assert alone[1] - alone[0] == pytest.approx(2 * 0.011, rel=0.15)
    assert alike[1] - alike[0] > 0.4


def test_the_medians_interval_covers_it() -> None:
    covered = 0
    for seed in range(100):
        values = np.random.Generator(np.random.PCG64(seed)).exponential(size=80)
        interval = of_medians(values, np.arange(80), 400)
        assert interval is not None
        covered += interval[0] <= np.log(2) <= interval[1]
    # 95 of 100, within three standard deviations of a binomial.
    assert covered >= 88


def test_one_probe_has_no_interval() -> None:
    assert of_shares(np.array([True, False]), np.array([0, 0])) is None
    assert of_medians(np.array([1.0, 2.0]), np.array([0, 0])) is None


def test_peaks_of_a_mixture() -> None:
    peaks = peaks_of(BOTH, ALONE, replicates=200)
    assert peaks.shares["around_2"] == pytest.approx(0.5, abs=0.01)
    assert peaks.shares["around_3"] == pytest.approx(0.5, abs=0.01)
    assert peaks.shares["above_4"] == 0.0


UDP = np.array([2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 120.0, 200.0, 300.0])


@pytest.mark.parametrize(
    ("tcp", "slope", "intercept", "words"),
    [
        (2.0 * UDP + 0.3, 2.0, 0.3, "two round trips: the server writes the reply at once"),
        (3.0 * UDP + 0.3, 3.0, 0.3, "three round trips: the server writes the length in a segment"),
        (2.0 * UDP + 20.0, 2.0, 20.0, "plus 20 ms that do not depend on the distance"),
        (1.2 * UDP + 1.0, 1.2, 1.0, "fewer round trips than a handshake needs"),
        (2.5 * UDP, 2.5, 0.0, "between the patterns"),
    ],
)
def test_the_line_tells_round_trips_from_fixed_delays(
    tcp: np.ndarray, slope: float, intercept: float, words: str
) -> None:
    # Two arbitrary points out of ten do not move the line.
    tcp = tcp.copy()
    tcp[[3, 7]] *= 20.0
    line = line_through(UDP, tcp)
    assert line is not None
    assert line.slope == pytest.approx(slope, abs=0.02)
    assert line.intercept_ms == pytest.approx(intercept, abs=0.6)
    assert words in say_line(line)


def test_one_distance_has_no_line() -> None:
    assert line_through(np.full(10, 40.0), np.full(10, 80.0)) is None


@pytest.mark.parametrize("count", [60, 166, 1000])
@pytest.mark.parametrize("tail", ["exponential", "exponential behind a peak", "lognormal"])
def test_a_long_tail_is_no_peak(tail: str, count: int) -> None:
    """Waits for a free slot: one peak at 2 or 3, and a tail whose bumps are chance."""
    rng = np.random.default_rng(count)
    several = 0
    for _ in range(40):
        waits = 2.0 + rng.exponential(3.0, count)
        ratios = {
            "exponential": waits,
            "exponential behind a peak": np.where(
                rng.random(count) < 0.7, rng.normal(2.0, 0.05, count), waits
            ),
            "lognormal": 2.0 * np.exp(np.abs(rng.normal(0.0, 0.8, count))),
        }[tail]
        several += len(find_peaks(density(ratios), ratios)) > 1
    assert several <= 4


def test_a_sixth_of_servers_of_another_kind_is_a_peak() -> None:
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(40):
        other = rng.random(166) < 0.15
        ratios = np.where(other, rng.normal(3.0, 0.1, 166), rng.normal(2.0, 0.1, 166))
        found += len(find_peaks(density(ratios), ratios)) == 2
    assert found >= 36


def test_full_slots_are_no_nearer_server() -> None:
    """Waits that hide the distance: from 250 ms for near clients to 60 ms for far ones."""
    line = line_through(UDP, 2.0 * UDP + np.linspace(250.0, 60.0, len(UDP)))
    assert line is not None and line.slope < 1.88
    assert "such as a free slot" in say_line(line)
    assert "nearer" not in say_line(line)
