import json
import re
import statistics
import time
from copy import copy
from dataclasses import replace
from io import StringIO

import pytest
from synthetic_run import LINK, synthetic_run

from narrows.errors import NarrowsError
from narrows.report.comparison_report import _changes
from narrows.results import Run, compare
from narrows.results.compare import Group, Row
from narrows.results.compare_rows import Difference
from narrows.results.extras import records
from narrows.results.group_names import Named, distinct_labels, short_keys, unsaid
from narrows.results.intervals import paired, welch


def one(kind: str, seed: int = 1, **facts: float) -> Run:
    return synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=10, **facts)


def row(rows: tuple[Row, ...], key: str) -> Row:
    return next(row for row in rows if row.key == key)


def test_single_runs_have_an_interval_for_shares_of_queries_alone() -> None:
    found = compare([one("bfifo", loss=0.03), one("red", loss=0.15)])
    assert [group.label for group in found.groups] == ["testbed-bfifo", "testbed-red"]
    first = row(found.rows, "dns.first_attempt_percent")
    change = first.differences[1]
    assert change is not None
    assert change.low is not None
    assert change.high is not None
    assert change.low < change.value < change.high < 0.0
    assert change.method.startswith("Newcombe")
    within = row(found.rows, "dns.within_1s_percent").differences[1]
    assert within is not None
    assert within.low is not None
    assert within.low < within.value
    backlog = row(found.rows, f"queues.{LINK}.run.backlog_mean_bytes").differences[1]
    assert backlog is not None
    assert (backlog.low, backlog.high, backlog.method) == (None, None, "")


def test_one_run_of_each_is_not_called_significant() -> None:
    """An interval over the queries says nothing about another seed (docs/guide.md, section 5)."""
    found = compare([one("bfifo", loss=0.03), one("red", loss=0.15)])
    first = row(found.rows, "dns.first_attempt_percent")
    sentence = first.sentence(1, found.groups)
    text = "DNS, answered at the first attempt: testbed-red is 12 points lower than testbed-bfifo "
    assert sentence.startswith(text + "with one run of each (95 % interval -16.12 to ")
    assert sentence.endswith(" points over the queries, taken as independent).")
    assert "significant" not in str(found.table())
    assert sum("cannot tell a difference from chance" in note for note in found.notes) == 1
    seeds = compare([one(kind, seed) for kind in ("bfifo", "red") for seed in (1, 2)])
    assert not any("cannot tell a difference" in note for note in seeds.notes)


def test_one_run_is_judged_by_the_spread_of_the_others() -> None:
    """A kernel's run against seeds of the simulator."""
    key = f"queues.{LINK}.run.backlog_mean_bytes"
    kernel = replace(one("bfifo", 9), backend="kernel")
    seeds = [one("bfifo", seed, loss=0.01 * seed) for seed in (1, 2, 3, 4)]
    found = row(compare([kernel, *seeds]).rows, key)
    change = found.differences[1]
    assert change is not None
    assert change.low is not None
    assert change.high is not None
    spread = statistics.stdev(found.samples[1])
    # Student's t with 3 degrees of freedom, from a printed table.
    half = 3.182 * spread * (1 + 1 / 4) ** 0.5
    assert change.value == pytest.approx(found.values[1] - found.values[0])  # type: ignore[operator]
    assert (change.high - change.low) / 2 == pytest.approx(half, rel=1e-3)
    notes = compare([kernel, *seeds]).notes
    assert not any("other seeds" in note or "from chance" in note for note in notes)
    assert any(note.startswith("a single run of backend kernel ") for note in notes)


def test_one_run_against_many_makes_nothing_significant() -> None:
    """The single run may vary more than the others, and nothing shows how much."""
    many = [one("bfifo", seed, loss=0.03) for seed in range(1, 11)]
    for runs in ([*many, one("red")], [one("red"), *many]):
        found = compare(runs)
        backlog = row(found.rows, f"queues.{LINK}.run.backlog_mean_bytes")
        change = backlog.differences[1]
        assert change is not None
        assert change.verdict in ("higher", "lower")
        assert not change.is_significant
        sentence = backlog.sentence(1, found.groups)
        assert sentence.endswith("; one run is too few to rely on.")
        assert not any(each.word(1) for each in found.rows)
        assert not found.frame["significant"].any()
        assert "significant with" not in str(found.table())
        (note,) = [note for note in found.notes if note.startswith("a single run of testbed-red ")]
        assert "no difference is called significant, better or worse" in note


def test_seeds_of_one_scenario_form_a_group() -> None:
    runs = [one(kind, seed) for kind in ("bfifo", "red") for seed in (1, 2, 3)]
    found = compare(runs)
    assert [len(group.runs) for group in found.groups] == [3, 3]
    key = f"queues.{LINK}.run.backlog_mean_bytes"
    backlog = row(found.rows, key)
    fifo = [run.summary["queues"][LINK]["run"]["backlog_mean_bytes"] * 1e-3 for run in runs[:3]]
    red = [run.summary["queues"][LINK]["run"]["backlog_mean_bytes"] * 1e-3 for run in runs[3:]]
    assert backlog.values == pytest.approx((statistics.fmean(fifo), statistics.fmean(red)))
    change = backlog.differences[1]
    assert change is not None
    assert (change.low, change.high) == pytest.approx(paired(fifo, red, 0.0)[:2])
    assert (change.method, change.seeds) == (
        "Student's t over the differences of paired seeds",
        3,
    )
    assert change.relative == pytest.approx(statistics.fmean(red) / statistics.fmean(fifo) - 1.0)


@pytest.mark.parametrize("seeds", [(1, 2, 3), (4, 5, 6)])
def test_a_difference_that_is_the_same_in_each_run_has_no_interval(seeds: tuple[int, ...]) -> None:
    def counted(run: Run, timeouts: int) -> Run:
        flows = {**run.summary["flows"], "timeouts": timeouts, "jain_fairness": 1.0}
        counts = copy(run)
        vars(counts)["summary"] = {**run.summary, "flows": flows}
        return counts

    before = [counted(one("bfifo", seed), 0) for seed in (1, 2, 3)]
    after = [counted(one("red", seed), 1) for seed in seeds]
    found = compare([*before, *after])
    timeouts = row(found.rows, "flows.timeouts").differences[1]
    assert timeouts is not None
    assert (timeouts.value, timeouts.low, timeouts.high, timeouts.verdict) == (1.0, None, None, "")
    fairness = row(found.rows, "flows.jain_fairness").differences[1]
    assert fairness is not None
    assert fairness.verdict == "same"


def test_seeds_are_paired_whatever_their_order() -> None:
    key = f"queues.{LINK}.run.backlog_mean_bytes"
    runs = {(kind, seed): one(kind, seed) for kind in ("bfifo", "red") for seed in (1, 2, 3)}
    orders = ((1, 2, 3), (3, 1, 2))
    found = [
        row(
            compare([runs["bfifo", s] for s in (1, 2, 3)] + [runs["red", s] for s in order]).rows,
            key,
        )
        for order in orders
    ]
    (one_way, other_way) = (r.differences[1] for r in found)
    assert one_way is not None
    assert other_way is not None
    assert (one_way.low, one_way.high) == pytest.approx((other_way.low, other_way.high))


def test_different_seeds_are_not_paired() -> None:
    runs = [one("bfifo", seed) for seed in (1, 2, 3)] + [one("red", seed) for seed in (1, 2, 4)]
    found = compare(runs)
    changes = [r.differences[1] for r in found.rows if r.differences[1]]
    assert {change.method for change in changes} == {"Welch's t over the seeds"}
    backlog = row(found.rows, f"queues.{LINK}.run.backlog_mean_bytes")
    assert "significant with 3 and 3 runs" in backlog.sentence(1, found.groups)


@pytest.mark.parametrize(
    ("mean", "other", "small"),
    [(18.98, 18.978, ", but small: both are 18.98 Mbit/s in four digits."), (18.98, 18.96, ".")],
)
def test_a_difference_that_no_table_shows_is_called_small(
    mean: float, other: float, small: str
) -> None:
    groups = compare([one(kind, seed) for kind in ("bfifo", "red") for seed in (1, 2)]).groups
    value = other - mean
    change = Difference(value, value - 1e-4, value + 1e-4, "Student's t", value / mean, 10)
    shown = Row("k", "TCP", "goodput", "Mbit/s", (mean, other), (None, change))
    assert shown.sentence(1, groups).endswith(f"; significant with 10 paired seeds{small}")


def test_every_metric_has_a_verdict_in_words() -> None:
    found = compare([one(kind, seed) for kind in ("bfifo", "red") for seed in (1, 2, 3)])
    backlog = row(found.rows, f"queues.{LINK}.run.backlog_mean_bytes")
    change = backlog.differences[1]
    assert change is not None
    assert change.verdict == "lower"
    assert re.fullmatch(
        rf"queue {LINK}, whole run, backlog, mean: testbed-red is 3\d\.\d % lower than "
        r"testbed-bfifo \(-8\d\.\d+ kB, 95 % interval -9\d\.\d+ to -8\d\.\d+ kB\); "
        r"significant with 3 paired seeds\.",
        backlog.sentence(1, found.groups),
    ), backlog.sentence(1, found.groups)
    same = row(found.rows, "flows.flows")
    assert "are the same with 3 paired seeds" in same.sentence(1, found.groups)
    assert not any("are the same" in sentence for sentence in found.sentences)
    assert any("would exclude zero by chance" in note for note in found.notes)
    verdicts = set(found.frame.filter(group="testbed-red")["verdict"])
    assert verdicts <= {"higher", "lower", "unclear", "same"}
    assert {"lower", "same"} < verdicts
    sure = found.frame.filter("significant")
    assert set(sure["verdict"]) <= {"higher", "lower"} and not sure.is_empty()


def test_what_goes_both_ways_is_no_difference() -> None:
    """The scenarios are equal except for their names, so noise must give no difference."""
    runs = [one("red", seed) for seed in (1, 2, 3)]
    other = [
        replace(one("red", seed + 10), seed=seed, scenario={**one("red").scenario, "name": "b"})
        for seed in (1, 2, 3)
    ]
    found = compare([*runs, *other])
    changes = [r.differences[1] for r in found.rows if r.differences[1]]
    unclear = [change for change in changes if change.verdict == "unclear"]
    assert len(unclear) > len(changes) / 2
    words = ("no difference seen between b and", "with 3 paired seeds")
    assert any(all(part in text for part in words) for text in found.sentences)


def test_a_comparison_can_be_of_some_metrics() -> None:
    found = compare([one("bfifo"), one("red")])
    chosen = found.only([f"queues.{LINK}.run.drops_total_per_s", "first_attempt_percent"])
    # In the order in which they were named, and these lead.
    assert [r.key for r in chosen.rows] == [
        f"queues.{LINK}.run.drops_total_per_s",
        "dns.first_attempt_percent",
    ]
    assert chosen.leading == list(chosen.rows)
    with pytest.raises(NarrowsError, match="there is no metric nothing; hint: one of dns"):
        found.only(["nothing"])


def test_a_difference_is_called_better_or_worse_where_one_way_is() -> None:
    groups = (Group("a", (one("bfifo"),)), Group("b", (one("red"),)))
    for better, change, word in (
        ("lower", -3.0, "better"),
        ("lower", 3.0, "worse"),
        ("higher", 3.0, "better"),
        ("", 3.0, ""),
    ):
        sure = Difference(change, change - 1.0, change + 1.0, "Student's", change / 10.0, 5)
        values = (10.0, 10.0 + change)
        row = Row("x", "DNS", "name", "ms", values, (None, sure), better=better)
        assert row.word(1) == word
        assert (f"er ({word}) than a" in row.sentence(1, groups)) is bool(word)
        assert row.cells[3].endswith(word or "3")
        unsure = replace(sure, low=-9.0, high=9.0)
        assert replace(row, differences=(None, unsure)).word(1) == ""
        of_two = replace(row, differences=(None, replace(sure, of_two=True)))
        assert of_two.word(1) == ""
        assert of_two.sentence(1, groups).endswith("two runs are too few to rely on.")


def test_between_backends_neither_way_is_better() -> None:
    runs = [one("bfifo", seed) for seed in (1, 2, 3)]
    kernel = [replace(one("red", seed), backend="kernel") for seed in (1, 2, 3)]
    found = compare([*runs, *kernel])
    sure = [
        each for each in found.rows if each.differences[1] and each.differences[1].is_significant
    ]
    assert any(each.better for each in sure)
    for each in sure:
        change = each.differences[1]
        assert change is not None
        assert each.word(1) == change.verdict
        assert "better" not in each.sentence(1, found.groups)
        assert "worse" not in each.sentence(1, found.groups)


def test_metrics_say_which_direction_is_better() -> None:
    kinds = {name: {f.key: f for f in record.metrics} for name, record in records().items()}
    for metrics in kinds.values():
        for metric in metrics.values():
            if metric.unit in ("ms", "s", "us"):
                assert metric.better == "lower", metric
            if metric.key.startswith("goodput"):
                assert metric.better == "higher", metric
    assert kinds["voip"]["mos_p5"].better == "higher"
    assert kinds["pings"]["lost_percent"].better == "lower"
    # For the sender of a flood, it is better if more packets arrive.
    assert not any(metric.better for metric in kinds["floods"].values())
    rows = {row.key: row.better for row in compare([one("bfifo"), one("red")]).rows}
    assert rows["dns.response_p99_ms"] == rows["dns.rtt_median_ms"] == "lower"
    assert rows["dns.first_attempt_percent"] == rows["flows.goodput_mbit_per_s"] == "higher"
    assert rows[f"queues.{LINK}.run.backlog_mean_bytes"] == ""


@pytest.mark.parametrize("seeds", [(1, 2), (1, 3)])
def test_two_seeds_make_nothing_significant(seeds: tuple[int, int]) -> None:
    runs = [one("bfifo", seed) for seed in (1, 2)] + [one("red", seed) for seed in seeds]
    found = compare(runs)
    backlog = row(found.rows, f"queues.{LINK}.run.backlog_mean_bytes")
    change = backlog.differences[1]
    assert change is not None and change.verdict == "lower" and change.of_two
    sentence = backlog.sentence(1, found.groups)
    with_runs = "2 paired seeds" if seeds == (1, 2) else "2 and 2 runs"
    assert f" than testbed-bfifo with {with_runs} (" in sentence
    assert sentence.endswith("; two runs are too few to rely on.")
    assert not any("significant with" in text for text in found.sentences)
    assert not any(each.word(1) for each in found.rows)
    assert any("one degree of freedom" in note for note in found.notes)
    # One of the two warnings is enough.
    assert not any(note.startswith("warning: intervals over") for note in found.notes)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_intervals_over_few_seeds_have_one_warning(count: int) -> None:
    seeds = range(1, count + 1)
    found = compare([one(kind, seed) for kind in ("bfifo", "red") for seed in seeds])
    said = [note for note in found.notes if note.startswith("warning: intervals over")]
    few = (
        f"warning: intervals over {count} seeds are wide, and right only if seeds vary normally, "
        "which so few cannot show; hint: five seeds or more"
    )
    assert said == ([few] if count < 5 else [])
    # The same number of intervals is said however many there are, from two on.
    keys = [each.key for each in found.rows if (d := each.differences[1]) and d.verdict == "lower"]
    for shown in (1, 2):
        notes = found.only(keys[:shown]).notes
        assert any("one in twenty would exclude zero" in note for note in notes) == (shown > 1)


def test_only_intervals_that_are_shown_count() -> None:
    found = compare([one(kind, seed) for kind in ("bfifo", "red") for seed in range(1, 6)])
    shown, every = (
        sum(
            d is not None and d.verdict not in ("", "same")
            for each in rows
            for d in each.differences
        )
        for rows in (found.telling, found.rows)
    )
    assert shown < every
    assert any(note.startswith(f"{shown} intervals at 95 % are shown") for note in found.notes)
    table = str(found.table())
    titles = [
        line
        for line in table.splitlines()
        if line.startswith("  answered at the first attempt (%)  ")
    ]
    assert len(titles) == 1, "what matters most is shown once"


def test_paired_is_students_own_example() -> None:
    """Student, "The probable error of a mean", 1908: ten patients' hours of sleep gained.

    The interval is what R's t.test(paired = TRUE) documents for this data set.
    """
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    assert paired(first, second)[:2] == pytest.approx((0.7001142, 2.4598858), abs=1e-7)
    low, high, _ = welch(first, second)
    assert low < 0.0 < high


def test_equal_runs_differ_by_nothing() -> None:
    found = compare([one("red"), one("red", 2)])
    assert len(found.groups) == 1
    scenario = {**one("red").scenario, "description": "the same"}
    found = compare([one("red"), one("red", scenario=scenario)])  # type: ignore[arg-type]
    assert len(found.groups) == 2
    assert {r.differences[1].value for r in found.rows if r.differences[1]} == {0.0}


def test_groups_of_one_name_get_different_labels() -> None:
    scenario = {**one("red").scenario, "description": "another"}
    found = compare([one("red"), one("red", scenario=scenario)])  # type: ignore[arg-type]
    labels = [group.label for group in found.groups]
    assert len(set(labels)) == 2


def test_names_of_runs_with_very_many_settings_take_no_time() -> None:
    """In a foreign folder, or in two scenarios with thousands of links."""
    scenarios = [
        {
            "traffic": [
                {"name": f"t{n}", "kind": f"{word}{n}", word: 1, "tcp": {"ecn": word}}
                for n in range(20_000)
            ]
        }
        for word in ("one", "other")
    ]
    began = time.process_time()
    labels = distinct_labels([Named("a", scenario, None) for scenario in scenarios])
    keys = unsaid(*scenarios, label="a, ecn one")
    short = short_keys([f"traffic.t{n}.kind" for n in range(20_000)])
    assert time.process_time() - began < 10.0, "pair by pair, it takes minutes"
    assert labels == ["a (1)", "a (2)"]
    assert keys == [f"traffic.t{n}.kind" for n in range(20_000)]
    assert short["traffic.t7.kind"] == "t7.kind"


def test_groups_of_one_name_are_called_after_what_differs() -> None:
    base = one("red")

    def with_queue(**settings: object) -> Run:
        first, *others = base.scenario["links"]
        direction = {**first["forward"], "queue": {**first["forward"]["queue"], **settings}}
        links = [{**first, "forward": direction}, *others]
        return one("red", scenario={**base.scenario, "links": links})  # type: ignore[arg-type]

    labels = [
        group.label
        for group in compare([base, with_queue(probability=0.5), with_queue(ecn=True)]).groups
    ]
    name, before = base.name, base.scenario["links"][0]["forward"]["queue"]
    old = before["probability"]
    assert labels[1:] == [
        "probability 0.5" + ("" if "ecn" not in before else ", ecn false"),
        f"probability {old}, ecn true",
    ]
    # Keys that come with another discipline are covered by its kind.
    fifo = with_queue(kind="bfifo", min="1 B", max="2 B", limit="3 B", burst=4, avpkt="5 B")
    assert [group.label for group in compare([fifo, base]).groups] == [
        "kind bfifo",
        "kind red",
    ]
    # Keys with the same name are distinguished, such as the ECN of two traffic groups.
    ecn = [{"name": name, "tcp": {"ecn": True}} for name in ("web", "downloads")]
    plain = [{**group, "tcp": {"ecn": False}} for group in ecn]
    both = [one("red", scenario={**base.scenario, "traffic": it}) for it in (plain, ecn)]  # type: ignore[arg-type]
    assert [group.label for group in compare(both).groups] == [
        "web.tcp.ecn false, downloads.tcp.ecn false",
        "web.tcp.ecn true, downloads.tcp.ecn true",
    ]
    # Many settings would make a long name.
    many = with_queue(limit="1 kB", min="2 kB", max="3 kB", avpkt="1400 B", burst=77)
    found = compare([base, many])
    assert found.groups[1].label == f"{name} (2)"
    assert any(
        note.startswith(f"{name} (1) and {name} (2) also differ in links.") for note in found.notes
    )


def test_other_seeds_are_said() -> None:
    other = {**one("red").scenario, "name": "other"}
    found = compare([one("red", 1), one("red", 8, scenario=other)])  # type: ignore[arg-type]
    assert any("other has other seeds than" in note for note in found.notes)


def test_the_same_run_twice_is_refused() -> None:
    with pytest.raises(NarrowsError, match="appear twice; hint"):
        compare([one("red"), one("red")])
    with pytest.raises(NarrowsError, match="nothing to compare"):
        compare([])


def test_a_partial_run_is_named() -> None:
    partial = synthetic_run(duration_s=100.0, workers=5, partial=True)
    notes = compare([one("bfifo"), partial]).notes
    assert "testbed-red, seed 1 is partial: interrupted" in notes


def test_a_comparison_is_json_and_text() -> None:
    found = compare([one("bfifo"), one("red")])
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert len(document["metrics"]) == 2 * len(found.rows) == found.frame.height
    out = StringIO()
    found.table().print(out)
    assert "answered at the first attempt (%)" in out.getvalue()
    assert len({len(line) for line in out.getvalue().splitlines()}) > 1


def test_welch_is_students_t_for_equal_samples() -> None:
    low, high, _ = welch([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])
    assert (low + high) / 2 == pytest.approx(10.0)
    # Equal variances and sizes: 4 degrees of freedom.
    assert (high - low) / 2 == pytest.approx(2.776 * (2.0 / 3.0) ** 0.5, abs=1e-3)


def test_seeds_that_all_give_the_same_give_no_interval() -> None:
    same = [replace(synthetic_run(seed=1), seed=seed) for seed in (1, 2)]
    other = [replace(run, scenario={**run.scenario, "name": "other"}) for run in same]
    comparison = compare([*same, *other])
    assert all(group.is_seedless for group in comparison.groups)
    assert all(d.low is None for row in comparison.rows for d in row.differences if d)
    assert sum("nothing in the scenario is random" in note for note in comparison.notes) == 2


@pytest.mark.parametrize("seeds", [(1, 2, 3), (4, 5, 6)])
@pytest.mark.parametrize(
    ("metric", "before", "after"),
    [
        ("drops_total_per_s", (80.0, 100.0, 120.0), (5.0, 5.0, 5.5)),
        ("loss_percent", (0.5, 1.0, 3.0), (0.0, 0.0, 0.5)),
        ("loss_percent", (99.0, 100.0, 90.0), (1.0, 0.0, 5.0)),
    ],
)
def test_nothing_falls_by_more_than_all_of_it(
    seeds: tuple[int, ...], metric: str, before: tuple[float, ...], after: tuple[float, ...]
) -> None:
    def giving(run: Run, value: float) -> Run:
        queue = {"run": {**run.summary["queues"][LINK]["run"], metric: value}}
        made = copy(run)
        vars(made)["summary"] = {**run.summary, "queues": {LINK: queue}}
        return made

    first = [giving(one("bfifo", n), value) for n, value in zip((1, 2, 3), before, strict=True)]
    other = [giving(one("red", n), value) for n, value in zip(seeds, after, strict=True)]
    comparison = compare([*first, *other])
    change = row(comparison.rows, f"queues.{LINK}.run.{metric}").differences[1]
    assert change is not None
    assert change.low is not None and change.high is not None
    assert change.relative is not None
    assert change.relative_low is not None and change.relative_high is not None
    assert -1.0 - 1e-9 <= change.relative_low < change.relative < change.relative_high
    assert (change.relative_high < 0.0) == (change.high < 0.0)
    if metric.endswith("percent"):
        assert -100.0 <= change.low < change.high <= 100.0
    (drawn,) = [
        each
        for each in _changes(comparison, 1)
        if each.section.startswith("queue") and each.percent == 100.0 * change.relative
    ]
    assert drawn.low == 100.0 * change.relative_low


def test_differences_that_labels_hide_are_told_of_each_group() -> None:
    def of(kind: str, seed: int, **more: object) -> Run:
        run = synthetic_run(kind=kind, seed=seed, duration_s=5.0, workers=1)
        tables = {"queue": {"kind": kind}, "traffic": [{"name": "bulk-near", "tcp": more}]}
        return replace(run, scenario={"name": "same", "queue": {"kind": kind}, **tables})

    groups = [
        of("red", 1),
        of("bfifo", 1),
        of("pfifo", 1, ecn=True, congestion="a name that is long"),
    ]
    found = compare(groups)
    assert [group.label for group in found.groups][1] == "kind bfifo"
    hidden = [note for note in found.notes if "differ in" in note]
    assert hidden == [
        "kind red and kind pfifo also differ in traffic.bulk-near.tcp.ecn, "
        "traffic.bulk-near.tcp.congestion"
    ]


@pytest.mark.parametrize(
    ("last", "words"),
    [(19.0, "b is 19 times as high (worse) as a"), (2.0, "b is 100 % higher (worse) than a")],
)
def test_a_large_change_is_told_in_times(last: float, words: str) -> None:
    change = Difference(last - 1.0, last - 1.1, last - 0.9, "t", relative=last - 1.0)
    values = (1.0, last)
    row = Row("x", "bursts", "mean", "s", values, (None, change), better="lower")
    run = synthetic_run(duration_s=5.0, workers=1)
    assert words in row.sentence(1, [Group("a", (run, run)), Group("b", (run, run))])


def test_runs_with_parts_from_outside_are_groups_of_their_own() -> None:
    run = synthetic_run(duration_s=20.0, workers=5)

    def own(arguments: str, source: str = "") -> Run:
        record = {"class": "Pi2", "arguments": arguments, "version": "", "source": source}
        return replace(run, outside={"queues": {"bottleneck.forward": record}})

    found = compare([run, own("target=0.02"), own("target=0.01")])
    labels = [group.label for group in found.groups]
    assert labels == [run.name, "queue Pi2(target=0.02)", "queue Pi2(target=0.01)"]
    assert not any("differ in" in note for note in found.notes)
    assert " queue Pi2(target=0.02) " in str(found.table()), "no number is broken"
    found = compare([own("", "one"), own("", "other")])
    assert len(found.groups) == 2, "another source is another queue"
    plugin = {"plugins": [{"file": "mine.so", "sha256": "0123456789abcdef"}]}
    found = compare([run, replace(run, outside=plugin)])
    assert found.groups[1].label == "plugin mine.so 01234567"
    with pytest.raises(NarrowsError, match="appear twice"):
        compare([own("x"), own("x")])
    for odd in ({"queues": 3, "plugins": "x"}, {"queues": {"a": 1}, "plugins": [2]}):
        assert compare([run, replace(run, outside=odd)]).groups
