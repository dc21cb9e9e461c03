"""What people are shown of a summary, and what comes first."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from synthetic_run import LINK, synthetic_run

from narrows import Scenario, run
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
    assert "TCP (bulk, once, on-off and ftp)\n" in text
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
    assert any(note.startswith("do not compare first attempts here") for note in found.notes)


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
