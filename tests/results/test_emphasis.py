"""Which metrics of a summary people are shown, and which come first."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from synthetic_run import LINK, synthetic_run

from narrows import Scenario, run
from narrows.results import Axis, Run, Sweep, SweepRun, compare, summary_table
from narrows.results.emphasis import leading, telling
from narrows.results.metrics import metrics
from narrows.results.success import counted
from narrows.results.sweep_text import sweep_text


def test_zeros_of_what_is_not_there_are_left_out() -> None:
    values = {
        "flows.timeouts": [0.0],
        "flows.ecn_flows": [0.0],
        "queues.a.run.marks_total_per_s": [0],
    }
    assert telling(values, []) == ["flows.timeouts"]
    # They mean something beside a run that has them.
    both = {key: [*of_one, 3.0] for key, of_one in values.items()}
    assert telling(both, []) == list(values)


def test_the_dns_phase_is_shown_where_it_differs() -> None:
    values = {
        "queues.a.run.loss_percent": [2.0],
        "queues.a.run.backlog_mean_bytes": [1000.0],
        "queues.a.dns_phase.loss_percent": [2.01],
        "queues.a.dns_phase.backlog_mean_bytes": [1100.0],
    }
    shown = [key for key in values if key != "queues.a.dns_phase.loss_percent"]
    assert telling(values, []) == shown


def test_three_metrics_lead() -> None:
    run = synthetic_run(duration_s=60.0, workers=5)
    keys = {metric.key: [metric.value] for metric in metrics(run.summary)}
    assert leading(keys, [run.summary]) == [
        "dns.first_attempt_percent",
        "dns.response_median_ms",
        "dns.response_p95_ms",
    ]
    without = {key: value for key, value in keys.items() if not key.startswith("dns")}
    first = leading(without, [run.summary])
    assert first[0] == "bursts.completion_mean_s"
    assert len(first) == 3


@pytest.fixture(scope="module")
def both_ways() -> Run:
    run = synthetic_run(duration_s=60.0, workers=5)
    half = run.flows.with_columns(
        sender=pl.col("receiver"), receiver=pl.col("sender"), group=pl.lit("uploads")
    )
    return replace(run, tables={**run.tables, "flows": pl.concat([run.flows, half])})


def test_uploads_and_downloads_are_not_added_up(both_ways: Run) -> None:
    text = str(summary_table(both_ways))
    assert "TCP (bulk, once, on-off and ftp)\n" in text
    assert text.count("  goodput ") == 2
    assert "TCP group uploads" in text
    flows = both_ways.summary["flows"]
    assert flows["both_ways"]
    assert not any(group["both_ways"] for group in flows["groups"].values())


def test_a_group_that_carries_data_both_ways_has_no_sum_either(both_ways: Run) -> None:
    flows = both_ways.flows.with_columns(group=pl.lit("calls"))
    one = replace(both_ways, tables={**both_ways.tables, "flows": flows})
    assert one.summary["flows"]["groups"]["calls"]["both_ways"]
    assert "  goodput " not in str(summary_table(one))
    comparison = compare([one, synthetic_run(kind="bfifo", duration_s=60.0, workers=5)])
    shown = [row.key for row in comparison.telling if row.name == "goodput"]
    assert shown == ["flows.groups.background.goodput_mbit_per_s"]


def test_a_comparison_adds_up_no_uploads_and_downloads(both_ways: Run) -> None:
    """The same beside a run without uploads, whose sum has another meaning."""
    alone = synthetic_run(kind="bfifo", duration_s=60.0, workers=5)
    comparison = compare([alone, both_ways])
    rows = {row.key: row for row in comparison.telling}
    sums = {"flows.goodput_mbit_per_s", "flows.jain_fairness"}
    assert not sums & rows.keys()
    down, up = (
        rows[f"flows.groups.{name}.goodput_mbit_per_s"].values for name in ("background", "uploads")
    )
    goodput = alone.summary["flows"]["goodput_mbit_per_s"]
    assert down[0] == pytest.approx(goodput)
    assert down[1] is not None
    assert up[0] is None and up[1] is not None
    # A user who asks for the sum gets it.
    assert [row.key for row in comparison.only(sorted(sums)).telling] == sorted(sums)


def test_goodput_of_each_way_leads(both_ways: Run) -> None:
    values = {
        metric.key: [metric.value]
        for metric in metrics(both_ways.summary)
        if not metric.key.startswith(("dns", "bursts"))
    }
    assert leading(values, [both_ways.summary]) == [
        "flows.groups.background.goodput_mbit_per_s",
        "flows.groups.uploads.goodput_mbit_per_s",
        f"queues.{LINK}.run.sojourn_mean_ms",
    ]


def _pages(**load_s: float) -> dict[str, dict[str, object]]:
    """The metrics of pages of several groups, which differ only in their load times."""
    groups = {name: {"load_p50_s": value, "loads": 10} for name, value in load_s.items()}
    pooled = sorted(load_s.values())[-1]
    return {"pages": {"load_p50_s": pooled, "loads": 10 * len(groups), "groups": groups}}


def test_each_group_leads_instead_of_all_together() -> None:
    """The pooled median, here the larger one, may say the opposite of the groups."""
    summary = _pages(near=1.0, far=3.0)
    values = {metric.key: [metric.value] for metric in metrics(summary)}
    assert leading(values, [summary]) == [
        "pages.groups.near.load_p50_s",
        "pages.groups.far.load_p50_s",
    ]
    # Five groups are more than three metrics, and none is left out.
    many = _pages(**{f"g{number}": 1.0 for number in range(5)})
    assert len(leading({metric.key: [1.0] for metric in metrics(many)}, [many])) == 5
    # Runs with other groups have only the metric of all together in common.
    others = _pages(near=1.0, moon=3.0)
    assert leading(values, [summary, others]) == ["pages.load_p50_s"]
    assert "pages.load_p50_s" in telling(values, [summary, others])


def test_a_comparison_leads_with_groups_and_names_them() -> None:
    runs = [synthetic_run(kind=kind, duration_s=10.0, workers=1) for kind in ("red", "bfifo")]
    for one, (near, far) in zip(runs, [(2.0, 8.0), (1.0, 9.0)], strict=True):
        one.__dict__["summary"] = {**one.summary, "dns": None, **_pages(near=near, far=far)}
    found = compare(runs)
    assert [row.key for row in found.leading][:2] == [
        "bursts.completion_mean_s",
        "pages.groups.near.load_p50_s",
    ]
    text = str(found.table())
    first = text.partition("What matters most")[2]
    assert "\n  pages, group near: load time, median (s)" in first
    assert "\n  pages, group far: load time, median (s)" in first
    assert "pages.load_p50_s" not in [row.key for row in found.telling]


def test_first_attempts_of_a_group_have_an_interval_over_its_queries() -> None:
    groups = {"a": {"queries": 50, "answered_at_attempt": [45, 5]}, "b": {"queries": 0}}
    summary = {"dns": {"queries": 50, "answered_at_attempt": [45]}, "dns_groups": groups}
    assert counted([summary, summary], "dns_groups.a.first_attempt_percent") == (90, 100)
    assert counted([summary], "dns_groups.b.first_attempt_percent") is None
    assert counted([summary], "dns_groups.a.response_p95_ms") is None


def test_a_sweep_shows_goodput_of_each_way(both_ways: Run) -> None:
    summary = {key: both_ways.summary[key] for key in ("flows", "queues", "links")}
    runs = tuple(
        SweepRun(
            run=str(limit),
            settings={"limit": limit},
            seed=1,
            status="complete",
            stopped="end",
            message="",
            end_s=60.0,
            events=1,
            summary=summary,
        )
        for limit in (1, 2)
    )
    swept = Sweep("a", {"name": "a"}, (Axis("limit", (1, 2)),), (1,), runs, "0", "complete")
    assert sweep_text(swept).header == (
        "limit",
        "runs",
        "flows.groups.background.goodput_mbit_per_s",
        "flows.groups.uploads.goodput_mbit_per_s",
        f"queues.{LINK}.run.loss_percent",
        f"queues.{LINK}.run.sojourn_mean_ms",
    )
    assert swept.plot().metric.key == "flows.groups.background.goodput_mbit_per_s"


def test_a_comparison_begins_with_bars_and_three_lines() -> None:
    runs = [synthetic_run(kind=kind, duration_s=60.0, workers=5) for kind in ("bfifo", "red")]
    lines = str(compare(runs).table()).splitlines()
    assert lines[2] == "answered at the first attempt (%)"
    drawn = {line.split()[0]: line.count("#") for line in lines[3:5]}
    shares = [run.summary["dns"]["first_attempt_percent"] for run in runs]
    assert drawn == {
        f"testbed-{kind}": round(50 * share / max(shares))
        for kind, share in zip(("bfifo", "red"), shares, strict=True)
    }
    start = lines.index("What matters most")
    assert [line.split("  ")[1] for line in lines[start + 1 : start + 4]] == [
        "answered at the first attempt (%)",
        "response time of answered queries, median (ms)",
        "response time of answered queries, 95 % within (ms)",
    ]
    assert f"queue {LINK}, whole run" in lines


TRUNCATING = """
name = "zone"
duration = "60 s"
end = "dns"
links = [{ name = "wan", between = ["c", "s"], rate = "10 Mbit/s", delay = "20 ms" }]

[[dns]]
name = "stub"
client = "c"
server = "s"
workers = 2
queries = 10
reply_size = "1700 B"
answers = { udp_size = "1232 B" }
"""
"""RFC 1035, 4.2.1, and RFC 7766, section 5: a reply of 1700 bytes does not fit into 1232, so the
server truncates it and the client asks again over TCP. Each query takes two attempts, and no packet
is lost."""


def of(keys: dict[str, object]) -> Run:
    return run(Scenario.parse(TRUNCATING), set=keys)


@pytest.fixture(scope="module")
def udp_and_tls() -> list[Run]:
    return [
        of({"name": transport, "dns.stub.transport": transport}) for transport in ("udp", "tls")
    ]


def test_transports_are_compared_by_response_times(udp_and_tls: list[Run]) -> None:
    udp, tls = udp_and_tls
    assert udp.summary["dns"]["first_attempt_percent"] == 0.0
    assert tls.summary["dns"]["first_attempt_percent"] == 100.0
    assert udp.summary["dns"]["within_1s_percent"] == 100.0
    found = compare(udp_and_tls)
    lines = str(found.table()).splitlines()
    assert lines[2] == "answered within a second (%)"
    assert [row.key for row in found.leading] == [
        "dns.within_1s_percent",
        "dns.response_median_ms",
        "dns.response_p95_ms",
    ]
    words = " ".join(found.sentences)
    assert "first attempt" not in words
    assert "response time of answered queries, median: tls is" in words
    assert any(note.startswith("first attempts cannot be compared here") for note in found.notes)


def test_truncation_alone_and_other_transports_alone_change_what_leads(
    udp_and_tls: list[Run],
) -> None:
    udp, tls = udp_and_tls
    fits = of({"name": "short", "dns.stub.reply_size": "200 B"})
    more = replace(udp, scenario={**udp.scenario, "name": "more"})
    first = {
        names: compare(runs).leading[0].key
        for names, runs in {
            "truncated": [udp, more],
            "transports": [fits, tls],
            "plain": [fits, replace(fits, scenario={**fits.scenario, "name": "b"})],
        }.items()
    }
    assert first == {
        "truncated": "dns.within_1s_percent",
        "transports": "dns.within_1s_percent",
        "plain": "dns.first_attempt_percent",
    }
