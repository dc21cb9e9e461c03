"""The table `goodput`, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.report import plots
from narrows.report.shown import shown_of
from narrows.results import summary_table
from narrows.results.goodput import GOODPUT, goodput_of, goodput_series

TWO_GROUPS = """
name = "two-downloads"
duration = "20 s"
[[links]]
name = "wan"
between = ["server", "home"]
rate = "10 Mbit/s"
delay = "10 ms"
framing = "ethernet"
queue = { kind = "pfifo", limit = 10000 }
[[traffic]]
kind = "bulk"
name = "first"
sender = "server"
receiver = "home"
stop = "10 s"
[[traffic]]
kind = "bulk"
name = "second"
sender = "server"
receiver = "home"
start = "14 s"
"""

FULL_MBIT_PER_S = 10 * 1448 / 1538
"""1448 bytes of payload in a segment with timestamps, 1538 on the wire."""


@pytest.fixture(scope="module")
def downloads() -> Run:
    return run(Scenario.parse(TWO_GROUPS))


def test_samples_are_regular_and_end_with_what_was_received(downloads: Run) -> None:
    for name in ("first", "second"):
        samples = downloads.goodput.filter(pl.col("group") == name)
        assert samples["t_s"].to_list() == pytest.approx([n / 10 for n in range(1, 201)])
        received = downloads.flows.filter(pl.col("group") == name)["bytes_received"].item()
        assert samples["bytes_received"].diff().sum() + samples["bytes_received"][0] == received


def test_a_download_alone_has_the_payloads_share_of_the_rate(downloads: Run) -> None:
    """Each group has the link alone for some time: the first at the start, then the second."""
    for name, start_s, end_s in (("first", 1.0, 10.0), ("second", 16.0, 20.0)):
        ends, rates = goodput_of(downloads.goodput, name)
        alone = (ends[:-1] >= start_s) & (ends[1:] <= end_s)
        # A sample may come just before or after a segment.
        np.testing.assert_allclose(rates[alone], FULL_MBIT_PER_S, atol=8e-6 * 1448 / 0.1)
        assert np.mean(rates[alone]) == pytest.approx(FULL_MBIT_PER_S, rel=2e-3)
    assert not goodput_of(downloads.goodput, "second")[1][:140].any()


def test_joined_intervals_carry_the_same_bytes(downloads: Run) -> None:
    for most in (1, 7, 60, 200, 1000):
        ends, rates = goodput_of(downloads.goodput, "first", most=most)
        assert len(rates) == len(ends) - 1 <= most
        received = downloads.flows["bytes_received"][0]
        assert 1e6 / 8 * np.sum(rates * np.diff(ends)) == pytest.approx(received)


def test_an_end_soon_after_a_sample_makes_no_interval_of_its_own() -> None:
    """Between the last two samples are 10 ms: a single segment would be a peak."""
    rows = pl.DataFrame(
        [[0.1, 0.2, 0.21], ["g"] * 3, ["forward"] * 3, [1000, 2000, 3448]],
        schema=GOODPUT.schema,
    )
    ends, rates = goodput_of(rows, "g")
    assert ends.tolist() == [0.0, 0.1, 0.21]
    assert rates.tolist() == pytest.approx([0.08, 8e-6 * 2448 / 0.11])


def test_a_group_that_carries_data_both_ways_has_both_apart() -> None:
    scenario = Scenario.parse(
        TWO_GROUPS.replace(
            'sender = "server"\nreceiver = "home"\nstop = "10 s"',
            'pairs = [["server", "home"], ["home", "server"]]',
        )
    )
    result = run(scenario)
    assert goodput_series(result.goodput) == [
        ("first", "forward"),
        ("first", "backward"),
        ("second", "forward"),
    ]
    last = result.goodput.group_by("direction", "group").agg(pl.col("bytes_received").last())
    received = {(row["direction"], row["group"]): row["bytes_received"] for row in last.to_dicts()}
    assert list(result.flows["bytes_received"]) == [
        received["forward", "first"],
        received["backward", "first"],
        received["forward", "second"],
    ]


def test_the_scenario_sets_the_rate() -> None:
    scenario = Scenario.parse(TWO_GROUPS + "[monitor]\ngoodput = { rate = 0.4 }\n")
    samples = run(scenario).goodput.filter(pl.col("group") == "first")
    assert samples["t_s"].to_list() == [2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0]


def test_a_run_without_tcp_has_no_such_table(tmp_path: Path) -> None:
    start = TWO_GROUPS.index("[[traffic]]")
    probes = '[[traffic]]\nkind = "ping"\nname = "p"\nsender = "home"\nreceiver = "server"\n'
    result = run(Scenario.parse(TWO_GROUPS[:start] + probes)).save(tmp_path / "run")
    assert "goodput" not in result.tables
    assert not (tmp_path / "run" / "goodput.parquet").exists()
    assert Run.load(tmp_path / "run").goodput.is_empty()


def test_a_group_without_samples_has_no_intervals(downloads: Run) -> None:
    ends, rates = goodput_of(downloads.goodput, "unknown", most=10)
    assert (ends.tolist(), rates.tolist()) == ([0.0], [])


def test_a_saved_run_has_it(downloads: Run, tmp_path: Path) -> None:
    downloads.save(tmp_path / "run")
    assert Run.load(tmp_path / "run").goodput.equals(downloads.goodput)


def test_a_groups_goodput_is_a_mean_until_its_last_connection_ended(downloads: Run) -> None:
    flows = downloads.summary["flows"]
    for name, start_s in (("first", 0.0), ("second", 14.0)):
        of_group = flows["groups"][name]
        (row,) = downloads.flows.filter(pl.col("group") == name).to_dicts()
        end_s = row["end_s"] or downloads.end_s
        assert of_group["window"] == pytest.approx(
            {"start_s": start_s, "end_s": end_s, "length_s": end_s - start_s}
        )
        assert of_group["goodput_mbit_per_s"] == pytest.approx(
            8e-6 * row["bytes_received"] / (end_s - start_s)
        )
        # Slow start costs the second some of its six seconds, and the first some of its ten.
        assert 0.93 * FULL_MBIT_PER_S < of_group["goodput_mbit_per_s"] < FULL_MBIT_PER_S
        assert of_group["jain_fairness"] == pytest.approx(1.0)
    received = downloads.flows["bytes_received"].sum()
    assert flows["goodput_mbit_per_s"] == pytest.approx(8e-6 * received / 20.0)
    assert flows["jain_fairness"] is None
    lines = [line.split() for line in str(summary_table(downloads)).splitlines()]
    spans = [line[-5:] for line in lines if line[:1] == ["goodput"]]
    assert spans[0] == ["(from", "0", "to", "20", "s)"]
    assert spans[2] == ["(from", "14", "to", "20", "s)"]


def test_drawn_goodput_is_a_mean_over_round_trips() -> None:
    """One lost segment of a full buffer holds back seconds of data, which then come at once."""
    deep = TWO_GROUPS.partition("[[traffic]]")[0].replace("10000", "1000")
    traffic = '[[traffic]]\nkind = "bulk"\nname = "one"\nsender = "server"\nreceiver = "home"\n'
    made = run(Scenario.parse(deep + traffic))
    _, rates = goodput_of(made.goodput, "one")
    assert rates.max() > 3.0 * FULL_MBIT_PER_S
    (curve,) = shown_of(plots.goodput(made), {"a": made}).drawing.curves
    assert max(curve.y) < 1.25 * FULL_MBIT_PER_S
