"""Each bound of the analysis, at it and just beyond; intervals against resampling by hand."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from narrows.ratio import RatioAnalysis, RatioError, Rules, analyse
from narrows.ratio.comparison import compare_ratios
from narrows.ratio.density import Density, density, histogram, nrd0, over_the_day, sheather_jones
from narrows.ratio.failures import failures_of
from narrows.ratio.folder import document
from narrows.ratio.peaks import find_peaks, half_sample_mode, peaks_of
from narrows.ratio.regression import Line, is_pattern, line_through, say_line
from narrows.ratio.resampling import of_medians, of_shares, percentile_interval, weights
from narrows.results import Measurement

pytestmark = pytest.mark.slow

# One at each bound and one a hundredth beyond.
RATIOS = [1.79, 1.8, 2.2, 2.21, 2.69, 2.7, 3.3, 3.31, 4.0, 4.01, 10.0, 10.01]


def exchange(transport: str, at: float, ms: float, **more: Any) -> dict[str, Any]:
    usual = {
        "exchange": 0,
        "vantage": "7",
        "target": "192.0.2.1",
        "server": "192.0.2.1",
        "family": 4,
        "transport": transport,
        "started_s": at,
        "total_ms": ms,
        "outcome": "answered",
        "rcode": "NOERROR",
        "qname": ".",
        "qtype": "SOA",
    }
    return usual | more


def measured(ratios: Sequence[float], udp_ms: float = 10.0, **more: Any) -> Measurement:
    """A pair for each ratio, ten minutes apart, each from its own vantage point."""
    rows = []
    for number, ratio in enumerate(ratios):
        own = {"vantage": f"{number:03}"} | more
        rows.append(exchange("udp", 600.0 * number, udp_ms, **own))
        rows.append(exchange("tcp", 600.0 * number + 60.0, round(udp_ms * ratio, 3), **own))
    return Measurement.of_rows("atlas", exchanges=rows, narrows="0")


def analysed(ratios: Sequence[float], **more: Any) -> RatioAnalysis:
    return analyse([measured(ratios, **more)])


def test_shares_include_their_ends_and_what_lies_beyond_a_bound_does_not() -> None:
    peaks = peaks_of(np.array(RATIOS), np.zeros(12, np.int64))
    counted = {name: round(12 * share, 9) for name, share in peaks.shares.items()}
    assert counted == {"around_2": 2, "around_3": 2, "above_4": 3, "above_10": 1}
    analysis = analysed(RATIOS)
    rows = {row.what: row for row in compare_ratios({"a": analysis, "b": analysis}).rows}
    for what, count in (
        ("ratio from 1.8 to 2.2", 2),
        ("ratio from 2.7 to 3.3", 2),
        ("ratio above 4", 3),
        ("ratio above 10", 1),
    ):
        assert (rows[what].first, rows[what].unit) == (pytest.approx(100.0 * count / 12), " %")
    assert rows["median ratio"].first == pytest.approx(3.0)
    assert [variant.rule for variant in analysis.variants] == [*Rules().varied()]
    for variant in analysis.variants:
        assert (variant.around_2, variant.around_3) == pytest.approx((2 / 12, 2 / 12))


def test_quantiles_are_what_their_names_say() -> None:
    peaks = peaks_of(np.arange(101.0) / 10.0, np.zeros(101, np.int64))
    assert [round(10.0 * value, 6) for value in peaks.quantiles.values()] == [5, 25, 50, 75, 95]
    assert [*peaks.quantiles] == [0.05, 0.25, 0.5, 0.75, 0.95]


def test_an_interval_leaves_out_two_and_a_half_percent_at_each_end() -> None:
    values = np.arange(101.0)
    assert percentile_interval(values) == pytest.approx((2.5, 97.5))
    # It takes twenty replicates, nine tenths of them finite.
    assert percentile_interval(values[:20]) is not None
    assert percentile_interval(values[:19]) is None
    assert percentile_interval(np.append(values[:90], [np.nan] * 10)) is not None
    assert percentile_interval(np.append(values[:90], [np.nan] * 11)) is None


def test_replicates_draw_as_many_vantage_points_as_there_are() -> None:
    drawn = np.concatenate(list(weights(7, 250)))
    assert drawn.shape == (250, 7)
    assert set(drawn.sum(axis=1)) == {7}


def test_intervals_are_those_of_repeated_rows() -> None:
    rng = np.random.default_rng(3)
    vantage = rng.integers(0, 9, 60)
    values = rng.exponential(size=60)
    drawn = np.concatenate(list(weights(9, 300)))
    samples = [np.repeat(values, each[vantage]) for each in drawn]
    # The lower of two middle values.
    medians = np.array([np.sort(sample)[(len(sample) - 1) // 2] for sample in samples])
    assert of_medians(values, vantage, 300) == pytest.approx(percentile_interval(medians))
    shares = np.array([(sample > 1.0).mean() for sample in samples])
    assert of_shares(values > 1.0, vantage, 300) == pytest.approx(percentile_interval(shares))
    modes = np.array([half_sample_mode(np.sort(sample)) for sample in samples])
    found = peaks_of(values, vantage, 300)
    assert found.mode_interval == pytest.approx(percentile_interval(modes))
    assert found.median_interval == of_medians(values, vantage, 300)
    assert (found.count, found.vantages) == (60, 9)


def test_what_all_vantage_points_gain_has_no_width() -> None:
    """The same vantage points measured both, so what varies between them cancels."""
    ratios = [2.0 + 0.01 * number for number in range(40)]
    first, second = analysed(ratios), analysed([ratio + 0.5 for ratio in ratios])
    found = compare_ratios({"first": first, "second": second})
    rows = {row.what: row for row in found.rows}
    assert found.paired
    for what, by in (("median ratio", 0.5), ("median of TCP - 2 UDP", 5.0), ("median UDP time", 0)):
        assert rows[what].difference == pytest.approx(by)
        assert rows[what].interval == pytest.approx((by, by), abs=1e-9)
    # Four of five vantage points in common are enough, and one fewer is not.
    for rest, paired in ((32, True), (31, False)):
        part = analysed(ratios[:rest])
        assert compare_ratios({"a": first, "b": part}).paired == paired


def test_unpaired_vantage_points_are_drawn_independently() -> None:
    """The interval is then about as wide as the root of the sum of squares."""
    ratios = [2.0 + 0.01 * number for number in range(40)]
    other = analysed(ratios, vantage="x")
    assert compare_ratios({"a": analysed(ratios), "b": other}).rows[0].interval is None
    far = replace(
        analysed(ratios), table=analysed(ratios).table.with_columns(pl.col("vantage") + "x")
    )
    row, share, *_ = compare_ratios({"a": analysed(ratios), "b": far}).rows
    alone = analysed(ratios).whole.peaks.median_interval
    assert row.interval is not None and alone is not None
    width = (row.interval[1] - row.interval[0]) / (alone[1] - alone[0])
    assert width == pytest.approx(math.sqrt(2.0), rel=0.25)
    # By hand, with the lower of two middle values, and the draws of one in reverse.
    samples = [np.repeat(ratios, each) for each in np.concatenate(list(weights(40, 400)))]
    medians = np.array([np.sort(sample)[(len(sample) - 1) // 2] for sample in samples])
    assert row.interval == pytest.approx(percentile_interval(medians[::-1] - medians))
    shares = np.array([100.0 * (sample <= 2.2).mean() for sample in samples])
    assert share.interval == pytest.approx(percentile_interval(shares[::-1] - shares))


def test_two_servers_are_compared_by_both_names() -> None:
    one, other = analysed([2.0] * 3), analysed([3.0] * 3, target="192.0.2.9")
    found = compare_ratios({"a": one, "b": other})
    ((name, cells),) = found.table().sections
    assert name == "192.0.2.1 and 192.0.2.9"
    assert cells[0] == ("median ratio", "2", "3", "+1", "1 to 1")
    assert cells[-1][:4] == ("unanswered over TCP (%)", "0", "0", "+0")
    assert found.sentences()[0] == f"{name}: median ratio is higher by 1 (95 %: 1 to 1)."
    both = analyse([measured([2.0] * 3), measured([3.0] * 3, target="192.0.2.9")])
    assert {row.server for row in compare_ratios({"a": both, "b": other}).rows} == {"192.0.2.9"}
    with pytest.raises(RatioError, match="have no server in common"):
        compare_ratios({"a": both, "b": analysed([2.0], target="192.0.2.2")})


def test_warnings_say_why_ratios_may_mean_less() -> None:
    rows = measured([2.0, 2.0]).exchanges.to_dicts()
    rows.append(exchange("udp", 9_000.0, 1.0, attempts=2, replies=1, vantage="000"))
    rows.append(exchange("tcp", 9_000.0, 1.0, qtype=None, vantage="000"))
    part = Measurement.of_rows(
        "capture",
        exchanges=rows,
        findings={"watched_near": "server"},
        status="partial",
        stopped="interrupted",
        narrows="0",
    )
    near, repeated, untold, partial = analyse([part]).warnings
    assert "captured near the server" in near
    assert repeated.startswith("1 answers of unsaved (capture) are to queries that were asked more")
    assert untold.startswith("1 answers of unsaved (capture) lack the type")
    assert partial == "unsaved (capture) is partial: interrupted"
    assert analysed([2.0]).warnings == ()


def test_a_hint_says_where_types_got_lost() -> None:
    rows = [exchange("udp", 0.0, 1.0), exchange("tcp", 0.0, 1.0, qtype=None)]
    lost = Measurement.of_rows("capture", exchanges=rows, narrows="0")
    with pytest.raises(RatioError, match=r"tcp: 1 for a type that is not known.*tcpdump -s 0"):
        analyse([lost])


def line(slope: float, intercept_ms: float = 0.0, ratio: float = 2.0) -> Line:
    return Line(slope, intercept_ms, None, None, 10, ratio)


def test_a_slope_matches_a_pattern_within_an_eighth() -> None:
    """`is_pattern` allows 0.12."""
    for slope in (1.881, 2.119, 2.881, 3.119):
        assert is_pattern(line(slope)), slope
    for slope in (1.879, 2.121, 2.879, 3.121):
        assert not is_pattern(line(slope)), slope
    assert "not depend" not in say_line(line(2.0, 5.0))
    assert "plus 5 ms that do not depend on the distance" in say_line(line(2.0, 5.1))
    assert "fewer round trips" in say_line(line(1.5, ratio=1.879))
    assert "hardly grows" in say_line(line(1.879, ratio=1.88))
    assert "between the patterns" in say_line(line(2.5, ratio=1.88))


def test_a_line_through_many_points_uses_some_of_them() -> None:
    udp = np.linspace(10.0, 300.0, 700)
    found = line_through(udp, 2.0 * udp + 20.0)
    assert found is not None
    assert (found.slope, found.intercept_ms) == pytest.approx((2.0, 20.0))
    assert found.slope_interval == pytest.approx((2.0, 2.0))
    assert found.intercept_interval_ms == pytest.approx((20.0, 20.0))
    assert found.points == 700
    assert found.ratio == pytest.approx(2.0 + 20.0 / 155.0, abs=1e-3)
    assert line_through(udp[:3], 2.0 * udp[:3]) is not None
    assert line_through(udp[:2], 2.0 * udp[:2]) is None


def rows(outcomes: dict[str, int], vantages: int) -> pl.DataFrame:
    each = [outcome for outcome, count in outcomes.items() for _ in range(count)]
    return pl.DataFrame(
        {
            "name": "a",
            "transport": "udp",
            "outcome": each,
            "vantage": [str(number % vantages) for number in range(len(each))],
        }
    )


def test_ten_vantage_points_without_a_spread_have_an_interval() -> None:
    """Wilson's for 0 of 10 ends at z^2 / (10 + z^2)."""
    most = 1.959964**2 / (10 + 1.959964**2)
    (none,) = failures_of(rows({"answered": 20}, 10))
    assert (none.failed, none.trials, none.interval) == (0, 10, pytest.approx((0.0, most)))
    (every,) = failures_of(rows({"timeout": 20}, 10))
    assert (every.failed, every.trials, every.interval) == (20, 10, pytest.approx((1 - most, 1)))
    (few,) = failures_of(rows({"answered": 20}, 9))
    assert (few.trials, few.interval) == (None, None)
    # If each asked once, each is a trial anyway.
    (once,) = failures_of(rows({"answered": 9}, 9))
    assert once.trials is None and once.interval is not None
    (one,) = failures_of(rows({"answered": 19, "timeout": 1}, 10))
    assert one.interval is not None and one.interval[0] == 0.0


def test_failures_are_counted_by_outcome() -> None:
    outcomes = {"reset": 2, "timeout": 2, "refused": 3, "not-asked": 4, "answered": 5}
    (found,) = failures_of(rows(outcomes, 2))
    assert (found.asked, found.failed, found.share) == (12, 7, pytest.approx(7 / 12))
    assert [*found.kinds.items()] == [("refused", 3), ("reset", 2), ("timeout", 2)]
    assert found.left_out == {"not-asked": 4}


def test_the_bandwidth_solves_sheather_and_joness_equation() -> None:
    """Their equation 12 with all distances, on steps of the grid; R's bw.SJ has the same constants.

    The pilot bandwidths are 0.920 and 0.912 interquartile ranges, here of 1.349 deviations.
    """
    step = 10.0 / 4096
    rng = np.random.default_rng(5)
    drawn = [*rng.normal(2.0, 0.2, 150), *rng.normal(3.1, 0.1, 50), 0.0, 10.0]
    ratios = step * np.round(np.array(drawn) / step)
    count = len(ratios)
    low, high = np.quantile(ratios, (0.25, 0.75))
    quartiles = min(float(high - low), 1.349 * float(ratios.std(ddof=1)))
    apart = np.subtract.outer(ratios, ratios)

    def derivative(order: int, width: float) -> float:
        """The mean of the kernel's derivative over all pairs, one with itself too."""
        at = apart / width
        form = {4: at**4 - 6 * at**2 + 3, 6: at**6 - 15 * at**4 + 45 * at**2 - 15}[order]
        total = float((form * np.exp(-0.5 * at**2)).sum()) / math.sqrt(2.0 * math.pi)
        return total / (count * (count - 1) * width ** (order + 1))

    fourth = derivative(4, 0.920 * quartiles * count ** (-1 / 7))
    sixth = -derivative(6, 0.912 * quartiles * count ** (-1 / 9))
    # Those beyond the plot do not count.
    found = sheather_jones(np.append(ratios, [10.01, 50.0]))
    pilot = 1.357 * (fourth / sixth) ** (1 / 7) * found ** (5 / 7)
    best = (2.0 * math.sqrt(math.pi) * count * derivative(4, pilot)) ** (-1 / 5)
    assert found == pytest.approx(best, rel=1e-3)


def hills(heights: Sequence[float], at: Sequence[float], variance: float = 1e-9) -> list[Any]:
    """The peaks of a density given by hand, as their ratios and shares.

    Args:
        heights: The density at some ratios.
        at: Those ratios.
        variance: Of an estimate, per unit of density: 1 / (2 sqrt(pi) n h) (Silverman, 3.3).
    """
    ratios = np.array([2.0] * 50 + [2.5] * 25 + [3.0] * 25)
    bandwidth = 1.0 / (2.0 * math.sqrt(math.pi) * len(ratios) * variance)
    smooth = Density(np.array(at), np.array(heights), bandwidth)
    return [(peak.ratio, peak.share) for peak in find_peaks(smooth, ratios)]


def test_a_peak_rises_above_its_valley_by_a_twentieth_of_the_highest() -> None:
    at = [0.5, 1.0, 2.0, 2.5, 3.0, 4.0]
    assert hills([0.0, 0.0, 1.0, 0.5, 0.5505, 0.0], at) == [(2.0, 0.5), (3.0, 0.5)]
    assert hills([0.0, 0.0, 1.0, 0.5, 0.5495, 0.0], at) == [(2.0, 1.0)]
    assert hills([0.0, 0.0, 0.5505, 0.5, 1.0, 0.0], at) == [(2.0, 0.5), (3.0, 0.5)]
    assert hills([0.0, 0.0, 0.5495, 0.5, 1.0, 0.0], at) == [(3.0, 1.0)]
    assert hills([0.0] * 6, at) == []
    # The first place may be a peak.
    assert hills([1.0, 0.2, 0.8, 0.0], at[:4]) == [(0.5, 0.0), (2.0, 1.0)]


def test_a_peak_rises_by_more_than_chance() -> None:
    """2.6 standard errors: 0.052 times the root of the sum of both, if the variance is 0.0004."""
    at = [0.0, 2.0, 2.5, 3.0, 4.0]
    assert len(hills([0.0, 1.0, 0.5, 0.555, 0.0], at, 4e-4)) == 2
    assert len(hills([0.0, 1.0, 0.5, 0.552, 0.0], at, 4e-4)) == 1


def test_near_peaks_become_the_highest_of_them() -> None:
    at = [0.0, 2.0, 2.05, 2.1, 3.0, 3.5, 5.0]
    assert hills([0.0, 1.0, 0.5, 0.8, 0.0, 0.9, 0.0], at) == [(2.0, 0.75), (3.5, 0.25)]
    assert hills([0.0, 0.8, 0.5, 1.0, 0.0, 0.9, 0.0], at) == [(2.1, 0.75), (3.5, 0.25)]
    # A tenth of the lower one's own ratio, not of the first one's.
    at = [0.0, 2.0, 2.5, 3.0, 3.1, 3.25, 5.0]
    assert hills([0.0, 1.0, 0.0, 0.8, 0.4, 0.7, 0.0], at) == [(2.0, 0.5), (3.0, 0.5)]


def test_few_or_equal_ratios_have_a_bandwidth() -> None:
    """R's bw.nrd0 takes the deviation, the first value, or 1 if there is no spread."""
    assert nrd0(np.array([5.0])) == 1.0
    assert nrd0(np.array([2.0, 2.0])) == pytest.approx(0.9 * 2.0 * 2**-0.2)
    assert nrd0(np.array([0.0, 0.0])) == pytest.approx(0.9 * 2**-0.2)
    four = np.array([1.0, 1.1, 2.0, 2.5])
    assert sheather_jones(four) == nrd0(four)
    assert sheather_jones(np.append(four, 3.0)) != nrd0(np.append(four, 3.0))
    # Two steps of the grid are the least.
    assert density(four, 1e-9).bandwidth == 2.0 * 10.0 / 4096


def test_bins_are_a_hundredth_wide() -> None:
    left, percent, beyond = histogram(np.array([0.0, 0.29, 0.58, 9.99]))
    assert (len(left), left[29], percent.sum(), beyond) == (1000, 0.29, 100.0, 0.0)
    assert [percent[place] for place in (0, 29, 58, 999)] == [25.0] * 4
    assert histogram(np.array([]))[1].sum() == 0.0


def test_days_have_half_hours_from_midnight() -> None:
    seconds, ratios = np.array([0.0, 3600.0, 3600.0]), np.array([0.0, 9.96, 10.0])
    times, left, counts = over_the_day(seconds, ratios)
    assert times.tolist() == [0.0, 1800.0, 3600.0]
    assert (counts.shape, left[-1]) == ((3, 200), pytest.approx(9.95))
    assert (counts[0, 0], counts[2, 199], counts.sum()) == (1, 1, 2)


def test_other_readings_change_one_rule_each() -> None:
    varied = Rules().varied()
    assert {name: rules.window_s for name, rules in varied.items()} == {
        "within 60 s": 60.0,
        "within 300 s": 300.0,
        "IPv4 only": 150.0,
        "NOERROR only": 150.0,
        "the first of each cycle": 150.0,
    }
    assert varied["IPv4 only"].families == (4,)
    assert varied["NOERROR only"].noerror_only
    assert varied["the first of each cycle"] == Rules(matching="cycle", cycle_s=1800.0)


def test_thirty_servers_keep_their_names() -> None:
    def servers(count: int) -> list[str]:
        parts = [
            measured([2.0] * (2 if number else 1), target=f"192.0.2.{number}", server=f"{number}")
            for number in range(count)
        ]
        return analyse(parts).servers

    assert len(servers(30)) == 30
    found = servers(31)
    # The server that was asked least, and the last of the others.
    assert (len(found), found[-1]) == (31, "other servers")
    assert "192.0.2.0" not in found


def test_three_questions_fit_into_a_sentence() -> None:
    def asked(count: int) -> tuple[str, ...]:
        return analyse(
            [measured([2.0], qname=f"{number}.", target=f"{number}") for number in range(count)]
        ).asked

    assert asked(3) == ("0. SOA", "1. SOA", "2. SOA")
    assert asked(4) == ()


def test_measurements_are_told_apart() -> None:
    skipped = {"source": "a.jsonl", "reason": "no time", "records": 3}
    part = Measurement.of_rows(
        "atlas",
        exchanges=measured([2.0]).exchanges.to_dicts(),
        skipped=[skipped, skipped | {"reason": "no kind", "records": 4}],
        narrows="0",
    )
    analysis = analyse([part, part, part])
    assert analysis.sources == ("unsaved (atlas)", "unsaved (atlas) #2", "unsaved (atlas) #3")
    assert analysis.skipped == (("no kind", 12), ("no time", 9))
    assert [group.table.height for group in analysis.by_source("192.0.2.1")] == [1, 1, 1]
    assert analysis.days == [dt.date(1970, 1, 1)]


def test_a_document_has_each_group_once() -> None:
    """Two servers on two days: each server, each of its days, and all together."""
    late = measured([2.0, 2.0])
    rows = late.exchanges.with_columns(pl.col("started_s") + 86_400.0, target=pl.lit("192.0.2.9"))
    later = replace(late, tables={**late.tables, "exchanges": rows})
    both = document(analyse([measured([2.0]), later]))
    assert [(group["server"], group["day"], group["pairs"]) for group in both["groups"]] == [
        ("192.0.2.1", None, 1),
        ("192.0.2.9", None, 2),
        ("192.0.2.1", "1970-01-01", 1),
        ("192.0.2.9", "1970-01-02", 2),
        ("all servers", None, 3),
    ]
    assert [part["asked"] for part in both["failures"]] == [1, 1, 2, 2]
    assert both["groups"][0]["line"] is None
    assert [*both["groups"][0]["quantiles"]] == ["p5", "p25", "p50", "p75", "p95"]
    (alone,) = document(analysed([2.0]))["groups"]
    assert alone["day"] is None
    assert alone["excess_median_ms"] == pytest.approx(0.0)
    far = measured([2.0, 2.0, 2.0, 2.0]).exchanges.with_columns(
        pl.col("total_ms") * pl.col("vantage").cast(pl.Int64).add(1)
    )
    spread = analyse([replace(late, tables={**late.tables, "exchanges": far})])
    assert document(spread)["groups"][0]["line"]["slope"] == pytest.approx(2.0)
