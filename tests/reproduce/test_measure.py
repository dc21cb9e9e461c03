"""The metrics of one run, from a run whose metrics are known by construction."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from narrows.reproduce.harhalakis_2011.measure import QUEUE, measure
from narrows.results import TABLES, Run

DNS_START_S = 40.0
END_S = 80.0
# Drops a second: before and after the start of DNS.
BEFORE, AFTER = 100, 130


def table(name: str, rows: int, **columns: object) -> pl.DataFrame:
    """A table of the run folder; columns that are not given are zero or empty."""
    found = {}
    for column in TABLES[name].columns:
        values = columns.get(column.name)
        if values is None:
            empty: object = None if column.nullable else 0
            if column.dtype == pl.String:
                empty = ""
            elif column.dtype == pl.List(pl.String):
                empty = []
            values = [empty] * rows
        found[column.name] = pl.Series(column.name, values).cast(column.dtype)
    return pl.DataFrame(found)


def known_run() -> Run:
    """100 measured queries: 90 answered on attempt 1, 8 on 2, 1 on 4, 1 on none."""
    attempts = [1] * 90 + [2] * 8 + [4] + [0]
    starts = np.linspace(DNS_START_S, END_S - 1.0, 100)
    made = [attempt or 5 for attempt in attempts]
    queries = table(
        "queries",
        100,
        query=range(100),
        worker=[n % 2 for n in range(100)],
        measured=[True] * 100,
        start_s=starts,
        end_s=starts + 1.0,
        attempt=attempts,
        attempts=made,
        response_ms=[None if n == 0 else 300.0 * n for n in attempts],
        rtt_ms=[None if n == 0 else 300.0 for n in attempts],
    )
    times = np.round(np.arange(0.1, END_S + 0.05, 0.1), 1)
    early = BEFORE * np.minimum(times, DNS_START_S) + AFTER * np.maximum(times - DNS_START_S, 0.0)
    queues = table(
        "queues",
        len(times),
        t_s=times,
        link=[QUEUE] * len(times),
        # The queue is full in one sample of four.
        backlog_bytes=[262_450 if n % 4 == 0 else 200_000 for n in range(len(times))],
        dropped_early=np.round(early).astype(np.uint64),
        marked_early=np.round(50.0 * times).astype(np.uint64),
        arrived_packets=np.round(900.0 * times).astype(np.uint64),
    )
    halves = np.round(np.arange(0.5, END_S + 0.1, 0.5), 1)
    links = table(
        "links",
        len(halves),
        t_s=halves,
        link=[QUEUE] * len(halves),
        busy_s=halves - 0.01 * np.maximum(halves - DNS_START_S, 0.0),
    )
    return Run(
        scenario={"name": "known"},
        seed=1,
        backend="sim",
        status="complete",
        stopped="dns-done",
        end_s=END_S,
        events=1,
        tables={"queries": queries, "queues": queues, "links": links},
        narrows="0",
    )


def test_the_metrics_of_a_known_run() -> None:
    found = measure(known_run())
    assert [found[f"attempt_{n}"] for n in range(1, 6)] == [90.0, 8.0, 0.0, 1.0, 0.0]
    assert found["first_attempt"] == 90.0
    assert found["unanswered"] == 1.0
    assert found["dns_phase_s"] == pytest.approx(40.0)
    assert found["drops_per_s"] == pytest.approx(AFTER, rel=0.01)
    assert found["marks_per_s"] == pytest.approx(50.0, rel=0.01)
    assert found["drops_before"] == pytest.approx(BEFORE, rel=0.01)
    assert found["drops_after"] == pytest.approx(AFTER, rel=0.01)
    assert found["drops_rise"] == pytest.approx(30.0, abs=0.5)
    assert found["utilisation_before"] == pytest.approx(100.0)
    assert found["utilisation"] == pytest.approx(99.0)
    assert found["room"] == pytest.approx(75.0, abs=0.5)
    assert found["backlog_bytes"] == pytest.approx(200_000 + 62_450 / 4, rel=0.01)
    assert found["backlog_most_bytes"] == 262_450


def test_drops_that_come_evenly_are_no_bursts() -> None:
    # 13 drops in each 100 ms of the DNS phase, and always the same number except for rounding.
    found = measure(known_run())
    assert found["slots_with_drops"] == 100.0
    # One burst that never ends.
    assert found["drop_burst_s"] == pytest.approx(40.0, abs=0.2)
    assert found["drops_dispersion"] < 0.05


def test_drops_that_come_in_bursts_are_dispersed() -> None:
    run = known_run()
    samples = run.queues.with_columns(
        # The same 13 a slot on average, all of them in every tenth.
        dropped_early=((pl.col("t_s") / 1.0 + 1e-6).floor() * 130).cast(pl.UInt64)
    )
    found = measure(replace(run, tables={**run.tables, "queues": samples}))
    assert found["slots_with_drops"] == pytest.approx(10.0, abs=0.3)
    assert found["drop_burst_s"] == pytest.approx(0.1)
    # Of 130 with probability 1/10: variance 130^2 (0.1 - 0.01), over a mean of 13.
    assert found["drops_dispersion"] == pytest.approx(130 * 0.9, rel=0.03)


def test_figure_2_has_dns_start_at_10_s() -> None:
    times, values = measure(known_run()).curves["ewma"]
    assert times[0] >= 0.0
    level = dict(zip((round(t, 1) for t in times), values, strict=True))
    # The run's 40 s are the figure's 10 s; the average reaches the new level soon after.
    assert level[9.9] == pytest.approx(BEFORE, rel=0.02)
    assert level[20.0] == pytest.approx(AFTER, rel=0.02)
    assert level[10.5] < level[20.0]


def test_response_times_are_ordered() -> None:
    times, shares = measure(known_run()).curves["cdf"]
    assert times == sorted(times)
    assert shares == sorted(shares)
    assert times[0] == 300.0
    assert times[-1] == pytest.approx(1200.0, rel=0.3)


def test_a_run_without_its_monitor_is_refused() -> None:
    run = known_run()
    unmonitored = Run(
        scenario=run.scenario,
        seed=1,
        backend="sim",
        status="complete",
        stopped="dns-done",
        end_s=END_S,
        events=1,
        tables={"queries": run.queries},
        narrows="0",
    )
    with pytest.raises(RuntimeError, match="not monitored"):
        measure(unmonitored)
