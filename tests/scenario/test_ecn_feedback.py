"""What a scenario may say about ECN feedback and the congestion controls that count marks."""

from __future__ import annotations

import pytest

from narrows import Scenario, ScenarioError, run

TEXT = """
name = "feedback"
duration = "10 s"
nodes = {{ hosts = ["a", "b"], routers = ["r"] }}

[[links]]
name = "out"
between = ["r", "b"]
rate = "20 Mbit/s"
queue = {{ kind = "codel", ecn = true, ce_threshold = "1 ms" }}

[[links]]
name = "in"
between = ["a", "r"]
rate = "1 Gbit/s"
delay = "5 ms"

[[traffic]]
kind = "bulk"
name = "bulk"
sender = "a"
receiver = "b"
connections = 2
{share}
tcp = {{ {tcp} }}
"""


def settings(tcp: str) -> dict[str, object]:
    plan = Scenario.parse(TEXT.format(tcp=tcp, share="")).plan()
    (config,) = plan["tcp"]
    return dict(config)


@pytest.mark.parametrize(
    ("tcp", "ecn", "accurate"),
    [
        ('ecn = "accurate"', True, True),
        ('congestion = "dctcp"', True, False),
        ('congestion = "dctcp", ecn = true', True, False),
        ('congestion = "dctcp", ecn = "accurate"', True, True),
        ('congestion = "prague"', True, False),
        ("ecn = true", True, False),
        ('congestion = "reno"', False, False),
    ],
)
def test_a_plan_says_which_feedback_is_used(tcp: str, ecn: bool, accurate: bool) -> None:
    config = settings(tcp)
    assert (config["ecn"], config["accurate_ecn"]) == (ecn, accurate)
    flows = run(Scenario.parse(TEXT.format(tcp=tcp, share=""))).flows
    assert flows["ecn"].to_list() == [ecn, ecn]
    if ecn:
        assert flows["ecn_reductions"].min() > 0


@pytest.mark.parametrize(
    ("tcp", "share", "words"),
    [
        ('congestion = "dctcp", ecn = false', "", r"tcp\.ecn: dctcp always negotiates ECN; hint"),
        (
            'congestion = "dctcp", profile = "ns-2"',
            "",
            r"tcp\.congestion: dctcp does not go with reduction at-once, as profile ns-2 has it",
        ),
        (
            'ecn = "accurate", profile = "ns-2"',
            "",
            r"tcp\.ecn: accurate does not go with reduction at-once, as profile ns-2 has it",
        ),
        ('congestion = "prague", ecn = false', "", r"tcp\.ecn: prague always negotiates ECN; hint"),
        ('congestion = "prague", ecn = "syn-ack"', "", r"tcp\.ecn: syn-ack does not go with"),
        ('congestion = "dctcp"', "ecn_share = 0.5", r"ecn_share: excludes congestion dctcp"),
        (
            'ecn = "acurate"',
            "",
            r'tcp\.ecn: "acurate" is not known here; hint: did you mean "accurate"',
        ),
    ],
)
def test_what_does_not_go_together_is_named(tcp: str, share: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        Scenario.parse(TEXT.format(tcp=tcp, share=share))


def test_dctcp_keeps_the_link_busy_without_losses() -> None:
    """Marks begin at a sojourn of 1 ms, and less than 10 ms of round trips remain to fill."""
    result = run(Scenario.parse(TEXT.format(tcp='congestion = "dctcp"', share="")))
    flows = result.summary["flows"]
    assert flows["goodput_mbit_per_s"] > 0.9 * 20 * 1448 / 1500
    assert flows["retransmitted_percent"] == 0
