"""DCTCP and Prague against published results."""

from __future__ import annotations

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


MARKS = 'kind = "codel", ecn = true, ce_threshold = "1 ms"'


@pytest.mark.parametrize(("tcp", "below"), [("pacing = true", 0.0), ("pacing = false", 0.005)])
def test_dctcp_at_10_ms_is_as_cablelabs_saw_it(tcp: str, below: float) -> None:
    """Between 48 and 49 Mbit/s from 0.6 s after the start on.

    Source: ns-3's tcp-validation.cc, which CableLabs checked on Linux: DCTCP over 50 Mbit/s with
    CoDel, whose CE threshold is 1 ms. A sender that paces is within these bounds. Without pacing it
    sends 47.8 to 47.9 Mbit/s: bursts are marked that leave the queue empty afterwards.
    """
    result = run(scenario(50, MARKS, [(f'congestion = "dctcp", {tcp}', 10)], 15))
    for second in range(1, 14):
        assert 48.0 * (1 - below) <= mbits(result, 0, second - 0.4, second + 0.6) <= 49.0, second


def test_dctcp_at_80_ms_is_as_cablelabs_saw_it() -> None:
    """Below 20 Mbit/s until 9 s after the start, below 48 until 25 s, 47.5 to 48.5 after 27 s.

    Source: as above. The last bound is for the mean here; single seconds have 47.0 to 48.0.
    """
    result = run(scenario(50, MARKS, [('congestion = "dctcp"', 80)], 45))
    rates = [mbits(result, 0, float(second), second + 1.0) for second in range(44)]
    assert max(rates[:9]) < 20
    assert max(rates[:25]) < 48
    assert 47.5 <= mbits(result, 0, 28.0, 44.0) <= 48.5
    assert min(rates[28:]) > 46.9


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
