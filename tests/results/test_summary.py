import json
import math
import pickle
import re
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
import polars as pl
import pytest
from synthetic_run import LINK, synthetic_run

from narrows.records.numbers import percentile, reached
from narrows.results import Run, summary_table
from narrows.results.extras import records
from narrows.results.intervals import newcombe, wilson
from narrows.results.jump import is_at_jump, jumps, jumps_of
from narrows.results.left_out import left_out
from narrows.results.metrics import metrics, value_text
from narrows.results.summarise import jain, summarise
from narrows.results.sweep_table import by_path
from narrows.results.text import TextTable, shown_metrics


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run()


def test_a_summary_is_plain_json_and_the_same_each_time(run: Run) -> None:
    text = json.dumps(run.summary, allow_nan=False)
    assert json.loads(text) == run.summary
    assert json.dumps(summarise(run.tables, run.end_s)) == text


def test_a_percentile_is_numpys_quantile_to_the_last_bit() -> None:
    draws = np.random.default_rng(1)
    for count in (1, 2, 3, 7, 40, 501):
        values = draws.lognormal(3.0, 2.0, count)
        for share in (0.0, 0.05, 0.5, 0.95, 1.0, *draws.random(20)):
            assert percentile(values, share) == np.quantile(values, share)
    assert percentile([], 0.5) is None


def test_dns_counts_add_up(run: Run) -> None:
    dns = run.summary["dns"]
    measured = run.queries.filter(pl.col("measured"))
    assert dns["queries"] == measured.height == 1600
    assert sum(dns["answered_at_attempt"]) + dns["unanswered"] == dns["queries"]
    share = (measured.get_column("attempt") == 1).mean()
    assert dns["first_attempt_percent"] == pytest.approx(100 * share)  # type: ignore[operator]
    low, high = dns["first_attempt_interval_percent"]
    assert low < dns["first_attempt_percent"] < high
    assert dns["first_attempt_percent"] == pytest.approx(91.0, abs=3.0)


def test_phases_contain_each_other(run: Run) -> None:
    dns = run.summary["dns"]
    outer, inner = dns["dns_phase"], dns["measured_phase"]
    assert outer["start_s"] == 40.0
    assert outer["start_s"] < inner["start_s"] < inner["end_s"] == outer["end_s"]
    assert dns["queries_per_s"] == pytest.approx(run.queries.height / outer["length_s"])


def test_an_open_query_keeps_the_phase_open() -> None:
    run = synthetic_run(duration_s=100.0, workers=5, partial=True)
    assert run.summary["dns"]["dns_phase"]["end_s"] == run.end_s


def test_rates_come_from_the_counters() -> None:
    tables = dict(synthetic_run(duration_s=10.0, workers=1).tables)
    t = [1.0, 2.0, 3.0, 4.0]
    queues = tables["queues"][:4].with_columns(
        t_s=pl.Series(t),
        backlog_bytes=pl.Series([0, 100, 200, 300], dtype=pl.UInt64),
        dropped_early=pl.Series([10, 20, 30, 40], dtype=pl.UInt64),
        dropped_overflow=pl.Series([0, 0, 0, 4], dtype=pl.UInt64),
        arrived_packets=pl.Series([100, 200, 300, 400], dtype=pl.UInt64),
        sent_packets=pl.Series([10, 40, 40, 50], dtype=pl.UInt64),
        sojourn_mean_ms=pl.Series([1.0, 2.0, None, 6.0]),
    )
    links = tables["links"][:4].with_columns(
        t_s=pl.Series(t), busy_s=pl.Series([0.5, 1.5, 2.5, 3.5])
    )
    empty = tables["queries"].clear()
    found = summarise({**tables, "queues": queues, "links": links, "queries": empty}, 4.0)
    queue = found["queues"][LINK]["run"]
    assert queue["drops_per_s"] == {"overflow": 1.0, "early": 10.0, "forced": 0.0}
    assert queue["drops_total_per_s"] == 11.0
    assert queue["loss_percent"] == 11.0
    assert queue["backlog_mean_bytes"] == 150.0
    assert queue["backlog_p95_bytes"] == pytest.approx(285.0)
    assert queue["sojourn_mean_ms"] == pytest.approx((10 * 1 + 30 * 2 + 10 * 6) / 50)
    # Little's law: packets that left, times how long they stayed, over the time.
    assert queue["held_mean_packets"] == pytest.approx((10 * 1 + 30 * 2 + 10 * 6) / 1000 / 4.0)
    assert found["links"][LINK]["run"]["utilisation_percent"] == 87.5
    assert "dns_phase" not in found["queues"][LINK]
    assert found["dns"] is None


def test_a_ring_that_was_not_measured_is_not_said_to_be_empty() -> None:
    tables = dict(synthetic_run(duration_s=10.0, workers=1).tables)
    of_ring = tables["queues"].select("ring_packets", "ring_bytes")
    assert of_ring.null_count().sum_horizontal().item() == 0
    unknown = tables["queues"].with_columns(ring_packets=None, ring_bytes=None)
    found = summarise({**tables, "queues": unknown}, 10.0)
    assert found["queues"][LINK]["run"]["ring_mean_bytes"] is None
    assert not [metric for metric in metrics(found) if "ring_mean" in metric.key]


def test_the_ends_of_a_phase_are_interpolated() -> None:
    run = synthetic_run(duration_s=60.0, workers=2)
    start = run.summary["dns"]["dns_phase"]["start_s"]
    links = run.links.with_columns(bytes=(pl.col("t_s") * 1e6).cast(pl.UInt64))
    found = summarise({**run.tables, "links": links}, 60.0)["links"][LINK]["dns_phase"]
    assert found["start_s"] == start
    assert found["throughput_mbit_per_s"] == pytest.approx(8.0)


def test_a_share_of_answers_has_the_response_time_of_a_query() -> None:
    tables = dict(synthetic_run(duration_s=10.0, workers=1).tables)
    # 58 answers at once, 2 after a repetition: 95 % of 60 are 57, and 99 % are more than 59.
    times = [*(float(ms) for ms in range(1, 59)), 5400.0, 5500.0]
    queries = tables["queries"].head(1)
    queries = pl.concat([queries] * len(times)).with_columns(
        query=pl.int_range(len(times), dtype=queries.schema["query"]),
        measured=pl.lit(value=True),
        start_s=pl.lit(0.0),
        end_s=pl.lit(6.0),
        attempt=pl.lit(1, dtype=queries.schema["attempt"]),
        response_ms=pl.Series(times),
    )
    for order in (queries, queries.reverse()):
        dns = summarise({**tables, "queries": order}, 10.0)["dns"]
        assert (dns["response_p95_ms"], dns["response_p99_ms"]) == (57.0, 5500.0)
    dns = summarise({**tables, "queries": queries.tail(3)}, 10.0)["dns"]
    assert (dns["response_p95_ms"], dns["response_p99_ms"]) == (5500.0, 5500.0)


@pytest.mark.parametrize(
    ("count", "percent", "rank"),
    [(1, 95, 1), (20, 95, 19), (21, 95, 20), (100, 99, 99), (101, 99, 100), (200, 99, 198)],
)
def test_a_share_is_reached_at_the_first_rank_that_has_it(
    count: int, percent: int, rank: int
) -> None:
    assert reached([float(n) for n in range(count, 0, -1)], percent) == rank


def test_flows_and_bursts(run: Run) -> None:
    flows = run.summary["flows"]
    assert flows["goodput_mbit_per_s"] == pytest.approx(9.3, abs=0.3)
    assert 0.95 < flows["jain_fairness"] <= 1.0
    assert flows["retransmitted_percent"] == pytest.approx(100 * 0.08 / 1.08, abs=0.1)
    assert flows["timeouts"] == 360
    bursts = run.summary["bursts"]
    assert (bursts["bursts"], bursts["completed"]) == (200, 195)
    assert bursts["completion_p50_s"] < bursts["completion_mean_s"] < bursts["completion_p99_s"]


def test_connections_that_never_opened_have_no_share_in_time_or_fairness(run: Run) -> None:
    """One opens at 1 s and gets 10 Mbit/s until the end at 9 s; the other repeats its SYN."""
    pair = run.flows.head(2).with_columns(
        start_s=pl.Series([1.0, None], dtype=pl.Float64),
        established_s=pl.Series([1.2, None], dtype=pl.Float64),
        bytes_received=pl.Series([10_000_000, 0], dtype=pl.UInt64),
        segments_sent=pl.Series([7_000, 4], dtype=pl.UInt64),
    )
    flows = summarise({**run.tables, "flows": pair}, 9.0)["flows"]
    assert (flows["flows"], flows["segments_sent"]) == (2, 7_004)
    assert flows["window"] == {"start_s": 1.0, "end_s": 9.0, "length_s": 8.0}
    assert (flows["goodput_mbit_per_s"], flows["jain_fairness"]) == (10.0, 1.0)
    # It was refused at 2 s, before the time that stands for its missing start.
    refused = pair.tail(1).with_columns(end_s=pl.lit(2.0))
    flows = summarise({**run.tables, "flows": refused}, 9.0)["flows"]
    assert (flows["flows"], flows["segments_sent"]) == (1, 4)
    assert [flows[key] for key in ("window", "goodput_mbit_per_s", "jain_fairness")] == [None] * 3
    shown = {metric.key for metric in metrics({"flows": {**flows, "groups": {}}})}
    assert "flows.flows" in shown and "flows.goodput_mbit_per_s" not in shown


def _two_groups_of_bursts() -> Run:
    """Bursts of 1 s over the near connection and of 9 s over the far one."""
    tables = dict(synthetic_run(duration_s=10.0, workers=1).tables)
    flows = tables["flows"].head(2).with_columns(group=pl.Series(["near", "far"]))
    schema = records()["bursts"].table.schema
    rows = [(0, n, 0.0, 1.0, 1000, 0) for n in range(3)] + [(1, 0, 0.0, 9.0, 1000, 0)]
    bursts = pl.DataFrame([*rows, (1, 1, 5.0, None, 1000, 0)], schema=schema, orient="row")
    run = synthetic_run(duration_s=10.0, workers=1)
    return replace(run, tables={**tables, "flows": flows, "bursts": bursts})


def test_groups_of_bursts_have_metrics_by_the_connection_s_group() -> None:
    bursts = _two_groups_of_bursts().summary["bursts"]
    assert (bursts["bursts"], bursts["completion_p50_s"]) == (5, 1.0)
    near, far = bursts["groups"]["near"], bursts["groups"]["far"]
    assert list(bursts["groups"]) == ["near", "far"]
    assert (near["bursts"], near["completed"], near["completion_mean_s"]) == (3, 3, 1.0)
    assert (far["bursts"], far["completed"], far["completion_mean_s"]) == (2, 1, 9.0)
    assert near.keys() == bursts.keys() - {"groups"}


def test_groups_are_shown_instead_of_a_metric_that_pools_them() -> None:
    run = _two_groups_of_bursts()
    shown = [metric.key for metric in shown_metrics(run)]
    assert "bursts.groups.near.completion_p50_s" in shown
    assert "bursts.groups.far.completion_p50_s" in shown
    assert "bursts.completion_p50_s" not in shown
    # The sum of all goodput is one; a median of round-trip times from near and far is of neither.
    assert "flows.goodput_mbit_per_s" in shown
    assert "flows.srtt_median_ms" not in shown
    assert "flows.groups.far.srtt_median_ms" in shown
    assert "  completion time, median  9  s  (1 of 2 bursts)" in re.sub(
        " {3,}", "  ", str(summary_table(run))
    )


def test_several_groups_have_their_own_metrics(run: Run) -> None:
    half = pl.when(pl.col("worker") < 10).then(pl.lit("few")).otherwise(pl.lit("many"))
    tables = {**run.tables, "queries": run.queries.with_columns(group=half)}
    found = summarise(tables, run.end_s)
    assert {name: part["queries"] for name, part in found["dns_groups"].items()} == {
        "few": 400,
        "many": 1200,
    }


def test_groups_have_the_order_of_the_scenario(run: Run) -> None:
    half = pl.when(pl.col("worker") < 10).then(pl.lit("few")).otherwise(pl.lit("many"))
    tables = {**run.tables, "queries": run.queries.with_columns(group=half)}
    groups = [{"name": "many"}, {"name": "few"}]
    mixed = replace(run, tables=tables, scenario={**run.scenario, "dns": groups})
    assert list(mixed.summary["dns_groups"]) == ["many", "few"]


@pytest.mark.parametrize("of", ["dns and tcp", "bursts in two groups"])
def test_every_metric_of_a_summary_has_words(run: Run, of: str) -> None:
    summary = run.summary if of == "dns and tcp" else _two_groups_of_bursts().summary
    named = {metric.key: metric for metric in metrics(summary, each_group=True, details=True)}
    columns = by_path(summary)
    assert [key for key in columns if key not in named] == []
    assert all(columns[key] * each.scale == each.value for key, each in named.items())


def test_groups_of_connections_are_shown_where_there_are_several() -> None:
    goodput = {"near": 3.0, "far": 1.0}
    groups = {name: {"goodput_mbit_per_s": value} for name, value in goodput.items()}
    found = metrics({"flows": {"goodput_mbit_per_s": 4.0, "groups": groups}})
    assert [(metric.key, metric.section, metric.value) for metric in found] == [
        ("flows.goodput_mbit_per_s", "TCP (bulk, once, on-off and ftp)", 4.0),
        ("flows.groups.near.goodput_mbit_per_s", "TCP group near", 3.0),
        ("flows.groups.far.goodput_mbit_per_s", "TCP group far", 1.0),
    ]
    del groups["far"]
    assert len(metrics({"flows": {"goodput_mbit_per_s": 4.0, "groups": groups}})) == 1


@pytest.mark.parametrize(
    ("without_retry", "noted"), [(950, True), (940, True), (960, True), (900, False), (1000, False)]
)
def test_a_percentile_at_the_jump_is_flagged(without_retry: int, noted: bool) -> None:
    # Two standard deviations of a binomial share of 95 % in 1000 queries are 1.38 points.
    dns = {
        "queries": 1250,
        "unanswered": 250,
        "without_retry_percent": 100.0 * without_retry / 1250,
    }
    found = jumps({"dns": dns})
    assert bool(found) is noted
    if noted:
        assert f"DNS: {without_retry / 10:.1f} % of the answered queries" in found[0]


def of_dns(queries: int, without_retry: int) -> dict[str, Any]:
    """DNS metrics where all queries are answered."""
    share = 100.0 * without_retry / queries
    return {"queries": queries, "unanswered": 0, "without_retry_percent": share}


def test_the_99th_percentile_has_a_jump_too() -> None:
    # Two standard deviations of a share of 99 % in 1000 queries are 0.63 points.
    (found,) = jumps({"dns": of_dns(1000, 988)})
    assert found.startswith("DNS: 98.8 % of") and '"99 % within"' in found
    assert jumps({"dns": of_dns(1000, 980)}) == []
    both = {"near": of_dns(1000, 988), "far": of_dns(1000, 991)}
    (found,) = jumps({"dns": None, "dns_groups": both})
    assert found.startswith("all DNS groups: 98.8 to 99.1 % of")
    (found,) = jumps({"dns": None, "dns_groups": {**both, "far": of_dns(1000, 1000)}})
    assert found.startswith("DNS group near: 98.8 %")


def test_only_percentiles_at_the_jump_are_left_to_chance() -> None:
    at_99 = {"dns": of_dns(1000, 990)}
    assert is_at_jump(at_99, "response_p99_ms")
    assert not is_at_jump(at_99, "response_p95_ms")
    assert not is_at_jump(at_99, "response_median_ms")
    assert not is_at_jump({"dns": None}, "response_p99_ms")
    groups = {"fine": of_dns(1000, 1000), "lossy": of_dns(1000, 950)}
    assert is_at_jump({"dns": of_dns(2000, 1950), "dns_groups": groups}, "response_p95_ms")


def test_the_jump_is_said_of_metrics_that_are_shown_and_once_of_all_groups() -> None:
    named = [(name, [{"dns": of_dns(1000, 988)}] * 3) for name in ("fifo", "red", "pie", "sfq")]
    assert jumps_of(named, ["dns.response_p95_ms"], "all groups") == []
    shown = ["dns.response_p99_ms", "dns.response_median_ms"]
    (found,) = jumps_of(named, shown, "all groups")
    assert found.startswith("all groups: 98.8 %")
    (found,) = jumps_of([*named, ("drr", [{"dns": of_dns(1000, 500)}])], shown, "all groups")
    assert found.startswith("fifo; red; pie; 1 more: 98.8 %")
    # Half of the seeds are on either side, and each is far from the jump by itself.
    sides = [{"dns": of_dns(100_000, count)} for count in (98_000, 99_900)]
    assert jumps_of([("wide", sides)], shown, "all groups")
    assert not jumps_of([("wide", sides[1:])], shown, "all groups")


def test_shares_of_open_queries_say_of_which_queries_they_are() -> None:
    dns = {"first_attempt_percent": 97.59, "within_1s_percent": 97.13, "response_p95_ms": 81.3}
    of = {m.name: m.of for m in metrics({"dns": {**dns, "unfinished": 7}})}
    assert of["answered at the first attempt"] == "of those that ended"
    expected = "of all queries that had a second to be answered in"
    assert of["answered within a second"] == expected
    assert of["response time of answered queries, 95 % within"] == ""
    assert not any(m.of for m in metrics({"dns": {**dns, "unfinished": 0}}))


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_is_as_published(successes: int, total: int, low: float, high: float) -> None:
    assert wilson(successes, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "totals", "low", "high"),
    # Newcombe 1998, "Interval estimation for the difference", table II, method 10.
    [((48, 56), (80, 70), 0.0524, 0.3339), ((3, 9), (10, 10), 0.1705, 0.8090)],
)
def test_newcombe_is_as_published(
    counts: tuple[int, int], totals: tuple[int, int], low: float, high: float
) -> None:
    assert newcombe(counts, totals)[:2] == pytest.approx((low, high), abs=5e-5)


def test_jain_of_one_hog_is_one_nth() -> None:
    assert jain([1.0] + [0.0] * 9) == pytest.approx(0.1)
    assert jain([]) is None
    assert math.isclose(jain([3.0] * 7) or 0.0, 1.0)


def test_a_summary_is_taken_from_the_folder(run: Run, tmp_path: Any) -> None:
    run.save(tmp_path / "a")
    assert Run.load(tmp_path / "a").summary == run.summary


def test_a_notebook_shows_a_run_and_its_plots(run: Run) -> None:
    assert repr(run).startswith(f"<Run {run.name}, seed {run.seed}: complete, ")
    assert len(repr(run)) < 120
    html = run._repr_html_()
    assert "&lt;Run" in html
    for metric in shown_metrics(run):
        assert f">{escape(metric.name)}<" in html
        assert f">{value_text(metric.value)}<" in html


def test_units_of_a_summary_stand_below_each_other(run: Run) -> None:
    lines = str(summary_table(run)).splitlines()
    units = {line.rindex(unit) for line in lines for unit in (" ms", " 1/s") if line.endswith(unit)}
    assert len(units) == 1


def test_answers_within_a_second_and_their_packets() -> None:
    run = synthetic_run(duration_s=100.0, workers=5)
    dns = run.summary["dns"]
    measured = run.queries.filter(pl.col("measured"))
    assert not measured.get_column("end_s").null_count()
    waited = measured.get_column("response_ms").fill_null(math.inf).to_list()
    share = 100 * sum(ms <= 1000.0 for ms in waited) / len(waited)
    assert dns["within_1s_percent"] == pytest.approx(share)
    attempts = run.attempts.join(measured, on="query", how="semi")
    packets = sum(
        attempts.get_column(f"packets_{direction}").sum() for direction in ("sent", "received")
    )
    answered = dns["queries"] - dns["unanswered"]
    assert dns["packets_per_answer"] == pytest.approx(packets / answered)


def test_what_began_in_the_last_second_of_an_open_run_does_not_count() -> None:
    tables = dict(synthetic_run(duration_s=10.0, workers=1).tables)
    facts = {
        "start_s": [0.0, 1.0, 9.5, 9.6],
        "end_s": [0.1, 3.0, 9.55, None],
        "attempt": [1, 2, 1, 0],
        "attempts": [1, 2, 1, 1],
        "response_ms": [100.0, 2000.0, 50.0, None],
    }
    queries = tables["queries"][:4].with_columns(
        pl.Series(name, values, dtype=tables["queries"].schema[name])
        for name, values in {**facts, "measured": [True] * 4, "query": [0, 1, 2, 3]}.items()
    )
    # Two queries had a second left before the end; one of them took longer.
    assert summarise({**tables, "queries": queries}, 10.0)["dns"]["within_1s_percent"] == 50.0
    done = {**tables, "queries": queries[:3]}
    assert summarise(done, 10.0)["dns"]["within_1s_percent"] == pytest.approx(200 / 3)


def test_truncated_replies_are_between_first_and_clean_answers() -> None:
    tables = dict(synthetic_run(duration_s=60.0, workers=2).tables)
    first = tables["queries"].filter(pl.col("measured")).get_column("query")[0]
    fate = pl.when(pl.col("query") == first).then(pl.lit("truncated")).otherwise("fate")
    attempts = tables["attempts"].with_columns(fate.alias("fate"))
    dns = summarise({**tables, "attempts": attempts}, 60.0)["dns"]
    assert dns["truncated_percent"] == pytest.approx(100 / dns["queries"])


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_failed_attempts_over_connections_are_counted_and_shown(run: Run, transport: str) -> None:
    fates = ["closed", "closed", "closed", "reset", "late", "timed-out", "answered"]
    asked = run.queries.filter(pl.col("measured")).get_column("query")[: len(fates)].to_list()
    # Attempts of the warm-up do not count.
    asked += run.queries.filter(~pl.col("measured")).get_column("query")[:1].to_list()
    more = run.attempts[: len(asked)].with_columns(
        pl.Series("query", asked, dtype=pl.UInt32),
        pl.Series("fate", [*fates, "closed"]),
        transport=pl.lit(transport),
    )
    found = replace(run, tables={**run.tables, "attempts": pl.concat([run.attempts, more])})
    dns = found.summary["dns"]
    counts = [dns[f"attempts_{how}"] for how in ("refused", "closed", "reset", "silent")]
    shown = str(summary_table(found))
    if transport == "udp":
        # There, the share of first attempts is enough.
        assert counts == [0, 0, 0, 0] and "attempts: " not in shown
    else:
        assert counts == [0, 3, 1, 2] and "refused" not in shown
        assert re.search(r"attempts: the server closed the connection +3$", shown, re.MULTILINE)


def test_tables_are_attributes_whatever_kind_brings_them(run: Run) -> None:
    assert run.voip.height == 0  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="a run has no vioces; hint: its tables are flows"):
        run.vioces  # type: ignore[attr-defined]  # noqa: B018
    assert pickle.loads(pickle.dumps(run)).seed == run.seed


def test_times_say_what_they_leave_out() -> None:
    tables = dict(synthetic_run(duration_s=10.0, workers=1).tables)
    record = records()["pages"]
    rows = [("web", 0, n, 0.0, 1.0, 5.0 + n, False, 1000, 6) for n in range(4)]
    pages = pl.DataFrame(rows, schema=record.table.schema, orient="row")
    late = pl.when(pl.col("load") == 3).then(None).otherwise("end_s")
    found = summarise({**tables, "pages": pages.with_columns(end_s=late)}, 10.0)
    shown = {metric.key: metric for metric in metrics(found)}
    assert shown["pages.load_mean_s"].of == "3 of 4 loads"
    assert shown["pages.first_object_mean_s"].of == ""
    assert left_out([found]) == [
        "pages: only 3 of 4 loads ended; times leave out the others, which took longer; "
        "hint: set a longer duration"
    ]
    whole = summarise({**tables, "pages": pages}, 10.0)
    assert left_out([whole]) == []
    # Of both runs together: 7 of 8.
    assert "only 7 of 8 loads" in left_out([found, whole])[0]


def test_a_calls_directions_have_metrics_of_their_own() -> None:
    tables = dict(synthetic_run(duration_s=10.0, workers=1).tables)
    table = records()["voip"].table
    empty = dict.fromkeys(table.schema.names())
    rows = [
        {**empty, "group": "call", "call": 0, "direction": direction, "mos": mos, "late_packets": 0,
         "sent_packets": 9, "received_packets": 9, "lost_packets": 0}
        for direction, mos in (("there", 4.4), ("back", 2.0))
    ]  # fmt: skip
    found = summarise({**tables, "voip": pl.DataFrame(rows, schema=table.schema)}, 10.0)
    shown = {metric.key: (metric.section, metric.value) for metric in metrics(found)}
    assert shown["voip.mos_mean"] == ("calls, both directions", pytest.approx(3.2))
    assert shown["voip.there.mos_mean"] == ("calls, there", 4.4)
    assert shown["voip.back.mos_mean"] == ("calls, back", 2.0)


def test_long_names_break_behind_their_dots_in_wide_tables() -> None:
    row = ("100", *["99.13 (97.93 to 99.64)"] * 4)
    narrow = TextTable(
        "", ("queue.limit", "dns.p95", "dns.p96", "dns.p97", "dns.p98"), [("", [row])]
    )
    assert str(narrow).splitlines()[1].split() == list(narrow.header)
    names = [f"dns_groups.{name}.within_1s_percent" for name in ("udp", "tls", "https", "quic")]
    wide = str(TextTable("", ("queue.limit", *names), [("", [row])]))
    above, below = (line.split() for line in wide.splitlines()[1:3])
    assert [*above, below[0]] == [
        *("dns_groups.udp.", "dns_groups.tls.", "dns_groups.https.", "dns_groups.quic."),
        "queue.limit",
    ]
    assert below[1:] == ["within_1s_percent"] * 4
    assert max(map(len, wide.splitlines())) <= 110
