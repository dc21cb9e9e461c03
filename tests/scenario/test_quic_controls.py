"""The congestion controls that QUIC shares with TCP, in scenarios."""

from __future__ import annotations

import pytest

import narrows
from narrows import Run, Scenario, ScenarioError

SHARED = """
name = "shared"
seed = {seed}
duration = "40 s"

[[links]]
name = "line"
between = ["server", "home"]
delay = "{delay} ms"
forward = {{ rate = "40 Mbit/s", queue = {queue} }}
backward = {{ rate = "40 Mbit/s", queue = {{ kind = "bfifo", limit = "1 MB" }} }}

[[traffic]]
kind = "bulk"
name = "tcp"
sender = "server"
receiver = "home"
connections = 1
tcp = {{ congestion = "{control}" }}

[[traffic]]
kind = "page"
name = "quic"
client = "home"
server = "server"
transport = "quic"
browsers = 1
loads = 1
quic = {{ congestion = "{control}", payload = "1472 B" }}
objects = [{{ name = "file", size = "900 MB" }}]

[monitor]
flows = ["tcp", "quic"]
queue_delays = ["line.forward"]

[measure]
from = "10 s"
"""
DUALPI2 = '{ kind = "dualpi2" }'
FIFO = '{ kind = "bfifo", limit = "200 kB" }'


def shared(control: str, queue: str, delay: int, seed: int = 1) -> Run:
    return narrows.run(
        Scenario.parse(SHARED.format(control=control, queue=queue, delay=delay, seed=seed))
    )


@pytest.mark.parametrize(
    ("control", "queue", "delay"),
    [("prague", DUALPI2, 10), ("prague", DUALPI2, 20), ("bbr", FIFO, 10), ("bbr-v3", FIFO, 10)],
)
def test_tcp_and_quic_share_a_link_equally(control: str, queue: str, delay: int) -> None:
    states = shared(control, queue, delay).table("flow_states")
    rates = {
        group: sum(rows["goodput_bit_per_s"]) / len(rows)
        for (group,), rows in states.filter(states["t_s"] > 10).group_by("group")
    }
    assert rates.keys() == {"tcp", "quic"}
    both = sum(rates.values())
    jain = both**2 / (2 * sum(rate**2 for rate in rates.values()))
    assert jain > 0.98, rates
    assert both > 0.9 * 40e6, rates


def test_prague_over_quic_waits_in_the_l_queue_and_bbr_shows_its_phases() -> None:
    run = shared("prague", DUALPI2, 20)
    (delays,) = run.table("queue_delays").iter_rows(named=True)
    assert delays["ecn"] == "ect1" and delays["marked_packets"] > 1000
    # The step marks what waits for a millisecond.
    assert delays["wait_p50_ms"] < 1 and delays["wait_p99_ms"] < 2
    states = run.table("flow_states")
    rates = states.filter(states["group"] == "quic")["pacing_bit_per_s"].drop_nulls().to_list()
    assert min(rates) > 0 and 15e6 < sum(rates) / len(rates) < 25e6
    states = shared("bbr", FIFO, 10).table("flow_states")
    phases = states.filter(states["group"] == "quic")["state"]
    assert set(phases) >= {"startup", "probe-bw", "probe-rtt"}


def test_a_control_that_counts_marks_needs_them() -> None:
    text = SHARED.format(control="prague", queue=DUALPI2, delay=10, seed=1)
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(text.replace("payload =", "ecn = false, payload ="))
    (line,) = str(caught.value).splitlines()
    assert "quic.ecn" in line and "prague needs ECN-capable packets" in line
