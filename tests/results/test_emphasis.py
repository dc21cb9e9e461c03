"""What people are shown of a summary, and what comes first."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from synthetic_run import LINK, synthetic_run

from narrows.results import Run, compare, summary_table
from narrows.results.emphasis import leading, telling
from narrows.results.metrics import metrics


def test_zeros_of_what_is_not_there_are_left_out() -> None:
    values = {
        "flows.timeouts": [0.0],
        "flows.ecn_flows": [0.0],
        "queues.a.run.marks_total_per_s": [0],
    }
    assert telling(values) == ["flows.timeouts"]
    # Beside a run that has them, they say something.
    both = {key: [*of_one, 3.0] for key, of_one in values.items()}
    assert telling(both) == list(values)


def test_the_dns_phase_is_shown_where_it_differs() -> None:
    values = {
        "queues.a.run.loss_percent": [2.0],
        "queues.a.run.backlog_mean_bytes": [1000.0],
        "queues.a.dns_phase.loss_percent": [2.01],
        "queues.a.dns_phase.backlog_mean_bytes": [1100.0],
    }
    assert telling(values) == [key for key in values if key != "queues.a.dns_phase.loss_percent"]


def test_three_figures_lead() -> None:
    run = synthetic_run(duration_s=60.0, workers=5)
    keys = {metric.key: [metric.value] for metric in metrics(run.summary)}
    assert leading(keys) == [
        "dns.first_attempt_percent",
        "dns.response_median_ms",
        "dns.response_p95_ms",
    ]
    without = {key: value for key, value in keys.items() if not key.startswith("dns")}
    assert leading(without)[0] == "bursts.completion_mean_s"
    assert len(leading(without)) == 3


@pytest.fixture(scope="module")
def both_ways() -> Run:
    run = synthetic_run(duration_s=60.0, workers=5)
    half = run.flows.with_columns(
        sender=pl.col("receiver"), receiver=pl.col("sender"), group=pl.lit("uploads")
    )
    return replace(run, tables={**run.tables, "flows": pl.concat([run.flows, half])})


def test_uploads_and_downloads_are_not_added_up(both_ways: Run) -> None:
    text = str(summary_table(both_ways))
    assert "goodput of these" not in text
    assert text.count("  goodput ") == 2
    assert "TCP group uploads" in text


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
        "response time, median (ms)",
        "response time, 95 % within (ms)",
    ]
    assert f"queue {LINK}, whole run" in lines
