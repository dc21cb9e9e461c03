"""DCTCP, Prague, and CUBIC behind CoDel, against published results."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from narrows import Run, Scenario, run

HEADERS = 64 + 38
"""IP and TCP with timestamps and the AccECN option; Ethernet with preamble and gap."""


def scenario(
    rate: int, queue: str, flows: list[tuple[str, int]], seconds: int, framing: str = ""
) -> Scenario:
    """Flows over a queue, with TCP settings and a round trip in ms each; they start 0.1 s apart."""
    hosts = ", ".join(f'"s{n}", "r{n}"' for n in range(len(flows)))
    text = f"""
name = "marks"
duration = "{seconds} s"
nodes = {{ hosts = [{hosts}], routers = ["near", "far"] }}

[monitor.goodput]
rate = 10

[[links]]
name = "bottleneck"
between = ["near", "far"]
rate = "{rate} Mbit/s"
queue = {{ {queue} }}
{framing}
"""
    for n, (tcp, rtt) in enumerate(flows):
        text += f"""
[[links]]
name = "in{n}"
between = ["s{n}", "near"]
rate = "1 Gbit/s"
delay = "{rtt / 2} ms"

[[links]]
name = "out{n}"
between = ["far", "r{n}"]
rate = "1 Gbit/s"

[[traffic]]
kind = "bulk"
name = "flow{n}"
sender = "s{n}"
receiver = "r{n}"
start = "{n / 10} s"
tcp = {{ {tcp} }}
"""
    return Scenario.parse(text)


def mbits(result: Run, flow: int, start: float, end: float) -> float:
    """A flow's goodput between two times in s, which are samples."""
    rows = result.goodput.select("group", "t_s", "bytes_received").rows()
    received = {round(t, 3): count for group, t, count in rows if group == f"flow{flow}"}
    return 8e-6 * (received[end] - received.get(start, 0)) / (end - start)


def sampled(flows: Scenario) -> Scenario:
    """The same with samples of the first flow's state."""
    return flows.with_({"monitor.flows": {"groups": ["flow0"], "rate": 20}})


def alpha(result: Run, start: float, end: float) -> npt.NDArray[np.float64]:
    """What the first flow takes to be the share of marked packets, in samples between two times."""
    samples = result.table("flow_states").filter(pl.col("t_s").is_between(start, end))
    return samples["alpha"].to_numpy()


MARKS = 'kind = "codel", ecn = true, ce_threshold = "1 ms"'


@pytest.mark.parametrize(("tcp", "below"), [("pacing = true", 0.0), ("pacing = false", 0.005)])
def test_dctcp_at_10_ms_is_as_cablelabs_saw_it(tcp: str, below: float) -> None:
    """Between 48 and 49 Mbit/s from 0.6 s after the start on; alpha as on Linux.

    Source: ns-3's tcp-validation.cc, which CableLabs checked on Linux: DCTCP over 50 Mbit/s with
    CoDel, whose CE threshold is 1 ms. A sender that paces is within these bounds. Without pacing it
    sends 47.8 to 47.9 Mbit/s: bursts are marked that leave the queue empty afterwards.

    They have alpha between 0.06 and 0.085 from 2 s on. That is ns-3's: in this scenario, the guest
    of Linux 6.1 has 0.106 to 0.177, with a mean of 0.142.
    """
    result = run(sampled(scenario(50, MARKS, [(f'congestion = "dctcp", {tcp}', 10)], 15)))
    for second in range(1, 14):
        assert 48.0 * (1 - below) <= mbits(result, 0, second - 0.4, second + 0.6) <= 49.0, second
    assert alpha(result, 2, 15).mean() == pytest.approx(0.142, rel=0.12)


def test_dctcp_at_80_ms_is_as_cablelabs_saw_it() -> None:
    """Below 20 Mbit/s until 9 s after the start, below 48 until 25 s, 47.5 to 48.5 after 27 s.

    Source: as above. The last bound is for the mean here; single seconds have 47.0 to 48.0. Alpha
    is above 0.1 before 2.5 s and below 0.01 from 6 to 25 s. After 29 s they have 0.015 to 0.025;
    the guest of Linux 6.1 has 0.031 to 0.086, with a mean of 0.056.
    """
    result = run(sampled(scenario(50, MARKS, [('congestion = "dctcp"', 80)], 45)))
    rates = [mbits(result, 0, float(second), second + 1.0) for second in range(44)]
    assert max(rates[:9]) < 20
    assert max(rates[:25]) < 48
    assert 47.5 <= mbits(result, 0, 28.0, 44.0) <= 48.5
    assert min(rates[28:]) > 46.9
    assert alpha(result, 0, 2.5).min() > 0.1
    assert alpha(result, 6, 25).max() < 0.01
    assert alpha(result, 29, 45).mean() == pytest.approx(0.056, rel=0.12)


@pytest.mark.parametrize("ecn", ["false", "true"])
def test_cubic_behind_codel_has_the_published_peaks(ecn: str) -> None:
    """The window peaks at 236 segments 9.28 s after the start, and at 234 after 13.05 s.

    Source: as above: CUBIC over 50 Mbit/s and 50 ms behind CoDel with 5 and 100 ms, with and
    without ECN. Slow start, before that, ends at 511 segments in ns-3. The guest of Linux 6.1 ends
    it at 287, and then has peaks of 232 to 237.
    """
    codel = f'kind = "codel", ecn = {ecn}'
    result = run(sampled(scenario(50, codel, [(f'congestion = "cubic", ecn = {ecn}', 50)], 15)))
    states = result.table("flow_states")
    windows = dict(zip(states["t_s"], states["cwnd_bytes"] / states["segment_bytes"], strict=True))
    assert max(windows.values()) == pytest.approx(287, rel=0.03)

    def peak(start: float, end: float) -> tuple[float, float]:
        return max((window, at) for at, window in windows.items() if start < at < end)

    for (window, at), published in [(peak(5, 10), (236, 9.28)), (peak(10, 15), (234, 13.05))]:
        assert window == pytest.approx(published[0], rel=0.02)
        assert at == pytest.approx(published[1], abs=0.3)


STEP = 'kind = "codel", limit = 4000, ecn = true, target = "1 s", interval = "10 s", ce_threshold ='
"""Marks packets that waited for longer; CoDel itself never comes into play."""


def test_dctcp_over_two_bottlenecks_is_as_published() -> None:
    """Each flow within 10 % of what the paper measured, and equal within its group.

    Source: Alizadeh et al., Data Center TCP, SIGCOMM 2010, Figure 17, as ns-3's dctcp-example.cc
    quotes it. Ten senders (S1) cross two full links. Twenty (S2) cross the first one, of 10 Gbit/s,
    and ten (S3) the second one, of 1 Gbit/s. Switches mark above 65 packets at 10 Gbit/s and above
    20 at 1 Gbit/s; here, above the time that these packets take. The rates at the second link add
    up to 1 Gbit/s, so they count headers. ns-3 has 23, 471 and 74 Mbit/s.
    """
    groups = {"s1": (10, 46.0), "s2": (20, 475.0), "s3": (10, 54.0)}
    text, links = "", [("trunk", "t1", "t2", 10, 78), ("r1", "t2", "r1", 1, 240)]
    hosts = ["r1"]
    for group, (count, _) in groups.items():
        for n in range(count):
            sender, receiver = f"{group}-{n}", f"r2-{n}" if group == "s2" else "r1"
            links.append((sender, sender, "t2" if group == "s3" else "t1", 1, 240))
            hosts.append(sender)
            if group == "s2":
                links.append((receiver, "t2", receiver, 1, 240))
                hosts.append(receiver)
            text += f"""
[[traffic]]
kind = "bulk"
name = "{sender}"
sender = "{sender}"
receiver = "{receiver}"
start = "{text.count("[[traffic]]")} ms"
tcp = {{ congestion = "dctcp" }}
"""
    for name, near, far, gbits, us in links:
        text += f"""
[[links]]
name = "{name}"
between = ["{near}", "{far}"]
rate = "{gbits} Gbit/s"
delay = "10 us"
queue = {{ {STEP} "{us} us" }}
"""
    head = f"""
name = "two-bottlenecks"
duration = "600 ms"
nodes = {{ hosts = {hosts}, routers = ["t1", "t2"] }}
[monitor.goodput]
rate = 10
"""
    result = run(Scenario.parse(head + text))
    rows = result.goodput.select("group", "t_s", "bytes_received").rows()
    received = {(group, round(t, 3)): count for group, t, count in rows}
    for group, (count, published) in groups.items():
        rates = [
            8e-6 * (received[f"{group}-{n}", 0.6] - received[f"{group}-{n}", 0.3]) / 0.3
            for n in range(count)
        ]
        on_the_wire = sum(rates) / count * (1500 + 38) / (1500 - 52)
        assert on_the_wire == pytest.approx(published, rel=0.1), group
        assert sum(rates) ** 2 / (count * sum(rate**2 for rate in rates)) > 0.99, group


NEW = 'congestion = "prague"'
OLD = 'congestion = "prague", prague_rtt_scaling = false'
CUBIC = 'congestion = "cubic"'
RENO = 'congestion = "reno"'


@pytest.mark.parametrize(
    ("rate", "flows", "published"),
    [
        # De Schepper et al. (arXiv 2209.01078), the authors' data (github.com/olgaalb/dualpi2eval),
        # Linux 5.10.31-prague-37, 40 Mbit/s.
        pytest.param(40, [(NEW, 5), (CUBIC, 5)], (19.92, 19.68), id="D1"),
        pytest.param(40, [(NEW, 5), (CUBIC, 100)], (33.84, 5.58), id="D3"),
        pytest.param(40, [(NEW, 100), (CUBIC, 5)], (9.11, 30.46), id="D4"),
        pytest.param(40, [(NEW, 100), (CUBIC, 100)], (25.33, 13.95), id="D7"),
        pytest.param(40, [(NEW, 5), (RENO, 5)], (18.85, 20.73), id="D10"),
        # Heist and Morton (github.com/heistp/l4s-tests), L4STeam's Linux of August 2020, 50 Mbit/s.
        pytest.param(50, [(OLD, 10), (CUBIC, 10)], (34.09, 13.04), id="H2"),
        pytest.param(50, [(OLD, 80), (CUBIC, 80)], (29.58, 17.85), id="H4"),
        pytest.param(50, [(OLD, 10), (OLD, 10)], (23.51, 22.75), id="H14"),
    ],
)
def test_prague_shares_dualpi2_as_published(
    rate: int, flows: list[tuple[str, int]], published: tuple[float, float]
) -> None:
    """The first flow's share, within 6 points.

    Theirs are means of 4 minutes, or of 60 s of 3 minutes, on real machines. Ours are those of 3
    minutes: at 100 ms, one minute is too short for a mean.
    """
    result = run(scenario(rate, 'kind = "dualpi2"', flows, 200, 'framing = "ethernet"'))
    first, second = (mbits(result, flow, 20.0, 200.0) for flow in (0, 1))
    assert first / (first + second) == pytest.approx(published[0] / sum(published), abs=0.06)


@pytest.mark.parametrize("rtt", [5, 100])
def test_prague_alone_fills_the_link(rtt: int) -> None:
    """The same data, D8 and D9: 99.9 and 99.1 % of the link."""
    flows = [(NEW, rtt)]
    result = run(scenario(40, 'kind = "dualpi2"', flows, 60, 'framing = "ethernet"'))
    payload = 1500 - 64
    whole = 40 * payload / (payload + HEADERS)
    assert mbits(result, 0, 30.0, 60.0) > (0.99 if rtt == 5 else 0.97) * whole
