"""The table `flow_states`: what it has, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.report.run_report import run_plots
from narrows.results import compare, summary_table

TEXT = """
name = "flows"
duration = "10 s"
[[links]]
name = "wan"
between = ["server", "home"]
rate = "10 Mbit/s"
delay = "20 ms"
queue = { kind = "pfifo", limit = 60 }
[[traffic]]
kind = "bulk"
name = "download"
sender = "server"
receiver = "home"
connections = 2
[[traffic]]
kind = "page"
name = "web"
client = "home"
server = "server"
objects = [{ name = "page", size = "400 kB" }]
transport = "quic"
loads = 2
pause = "1 s"
[[traffic]]
kind = "ping"
name = "ping"
sender = "home"
receiver = "server"
interval = "100 ms"
[monitor]
queues = { links = ["wan.forward"], rate = 10 }
"""
ON = '["download", "web"]'


@pytest.fixture(scope="module")
def sampled() -> Run:
    return run(Scenario.parse(TEXT, set={"monitor.flows": ON}))


def test_it_is_off_by_default_and_changes_nothing_else(sampled: Run) -> None:
    without = run(Scenario.parse(TEXT))
    assert "flow_states" not in without.tables
    assert set(sampled.tables) - set(without.tables) == {"flow_states"}
    for name, table in without.tables.items():
        assert table.equals(sampled.tables[name]), name
    assert (sampled.summary, sampled.events) == (without.summary, without.events)
    shown = [{each.name for each in run_plots(one)} for one in (sampled, without)]
    windows = {"flow-windows", "flow-round-trips", "flow-goodput", "flow-pacing"}
    assert shown[0] - shown[1] == windows


def test_samples_agree_with_the_other_tables(sampled: Run, tmp_path: Path) -> None:
    sampled.save(tmp_path / "run")
    loaded = Run.load(tmp_path / "run")
    states = loaded.table("flow_states")
    assert states.equals(sampled.table("flow_states"))
    assert states["group"].unique(maintain_order=True).to_list() == ["download", "web"]
    downloads = states.filter(group="download")
    bytes_of = downloads.group_by("name", maintain_order=True).agg(
        (pl.col("goodput_bit_per_s").sum() * 0.1 / 8).alias("bytes"),
        pl.col("cwnd_bytes").last() / pl.col("segment_bytes").last(),
        pl.col("srtt_ms", "min_rtt_ms", "retransmissions").last(),
    )
    flows = loaded.flows
    assert bytes_of["name"].to_list() == flows["name"].to_list()
    assert bytes_of["bytes"].to_list() == pytest.approx(flows["bytes_received"].to_list())
    assert bytes_of["cwnd_bytes"].to_list() == flows["cwnd_segments"].to_list()
    assert bytes_of["srtt_ms"].to_list() == flows["srtt_ms"].to_list()
    assert bytes_of["min_rtt_ms"].to_list() == flows["min_rtt_ms"].to_list()
    assert bytes_of["retransmissions"].to_list() == flows["segments_retransmitted"].to_list()
    # Two loads, each over a connection of its own. QUIC does not pace.
    web = states.filter(group="web")
    assert web["connection"].unique().to_list() == [0, 1]
    assert web["pacing_bit_per_s"].null_count() == web.height
    assert (web["name"] == "").all()
    assert set(states["state"]) <= {"slow-start", "avoidance", "recovery", "loss", "cwr"}


def test_comparisons_and_summaries_do_not_know_the_table(sampled: Run) -> None:
    without = run(Scenario.parse(TEXT))
    compared = compare([sampled, without])
    assert all(row.values[0] == row.values[1] for row in compared.rows)
    assert "flow_states" not in str(summary_table(sampled))


def test_bbr_shows_its_own_phases() -> None:
    probes = {f"probe-bw-{name}" for name in ("down", "cruise", "refill", "up")}
    for control, cruises, probing in (
        ("bbr", "probe-bw", {"probe-bw"}),
        ("bbr-v3", "probe-bw-cruise", probes),
    ):
        changed = {"monitor.flows": '["download"]', "traffic.download.tcp.congestion": control}
        states = run(Scenario.parse(TEXT, set=changed)).table("flow_states")
        assert set(states["state"]) <= {"startup", "drain", "probe-rtt", *probing}
        assert {"startup", cruises} <= set(states["state"])
