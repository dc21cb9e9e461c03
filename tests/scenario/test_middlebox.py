"""DNS through a middlebox that lets no TCP to port 53 pass."""

from __future__ import annotations

import pytest

from narrows import Run, Scenario, run

TEXT = """
name = "blocked"
duration = "200 s"
[[links]]
name = "home"
between = ["client", "router"]
rate = "10 Mbit/s"
delay = "10 ms"
[[links]]
name = "far"
between = ["router", "server"]
rate = "10 Mbit/s"
delay = "100 ms"
forward = {{ middlebox = {{ block_tcp_53 = "{block}" }} }}
[[dns]]
name = "stub"
client = "client"
server = "server"
queries = 1
{keys}
"""

TRUNCATED = """
transport = { kind = "udp", edns_size = "512 B" }
messages = { query = "45 B", reply = "1500 B" }
"""


def asked(block: str, keys: str) -> Run:
    return run(Scenario.parse(TEXT.format(block=block, keys=keys)), seed=1)


def fates(result: Run) -> list[tuple[str, str]]:
    return result.attempts.select("transport", "fate").rows()


def test_udp_passes() -> None:
    for block in ("drop", "reject"):
        assert fates(asked(block, "")) == [("udp", "answered")]


def test_a_reset_refuses_the_connection_after_the_round_trip_to_the_middlebox() -> None:
    result = asked("reject", 'transport = { kind = "tcp", tries = 2 }')
    assert fates(result) == [("tcp", "refused")] * 2
    assert result.attempts.get_column("packets_sent").to_list() == [1, 1]
    # Twice 10 ms, a SYN of 60 bytes and a reset of 40 at 10 Mbit/s; the server is 200 ms away.
    first, second = result.attempts.get_column("sent_s")
    assert second - first == pytest.approx(0.02 + 8 * (60 + 40) / 10e6, abs=1e-6)


def test_where_nothing_comes_back_syns_are_repeated() -> None:
    result = asked("drop", 'transport = "tcp"')
    assert fates(result) == [("tcp", "timed-out")]
    # tcp_syn_retries of Linux is 6.
    assert result.attempts.get_column("packets_sent").to_list() == [7]
    # After 1 and 3 seconds, and before 7.
    result = asked("drop", 'transport = { kind = "tcp", connect_timeout = "5 s" }')
    assert fates(result) == [("tcp", "timed-out")]
    assert result.attempts.get_column("packets_sent").to_list() == [3]


@pytest.mark.parametrize(("block", "fate"), [("drop", "timed-out"), ("reject", "refused")])
def test_a_truncated_reply_leads_nowhere(block: str, fate: str) -> None:
    result = asked(block, TRUNCATED)
    assert fates(result)[:2] == [("udp", "truncated"), ("tcp", fate)]
    assert result.summary["dns"]["unanswered"] == 1
