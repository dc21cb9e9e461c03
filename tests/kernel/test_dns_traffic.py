"""Floods and zone transfers on a real kernel and in the simulator, against the same DNS servers."""

from __future__ import annotations

import polars as pl
import pytest

from narrows import Run, Scenario, run

pytestmark = pytest.mark.slow

SCENARIO = """
name = "floods"
duration = "12 s"
links = [
    { name = "stub", between = ["stub", "r"], rate = "10 Mbit/s", delay = "5 ms" },
    { name = "attacker", between = ["attacker", "r"], rate = "10 Mbit/s", delay = "10 ms" },
    { name = "server", between = ["r", "server"], rate = "10 Mbit/s", delay = "5 ms" },
    { name = "third", between = ["r", "third"], rate = "10 Mbit/s", delay = "5 ms" },
    { name = "other", between = ["r", "other"], rate = "10 Mbit/s", delay = "5 ms" },
]

[[dns]]
name = "over-tcp"
client = "stub"
server = "server"
transport = "tcp"
workers = 1
queries = 3
think_mean = "500 ms"
answers = { backlog = 64, syncookies = "never", synack_retries = 1 }

[[dns]]
name = "over-udp"
client = "stub"
server = "other"
workers = 1
queries = 3

[[traffic]]
kind = "flood"
name = "syns"
source = "attacker"
server = "server"
per_second = 200
spacing = "even"
addresses = 50
start = "3 s"
stop = "5 s"

[[traffic]]
kind = "flood"
name = "queries"
of = "queries"
source = "attacker"
server = "other"
per_second = 100
spacing = "even"
reply = "300 B"
start = "6 s"
stop = "8 s"

[[dns]]
name = "primary"
client = "stub"
server = "third"
workers = 1
queries = 1

# The second is due while the first goes on, and waits for its end.
[[traffic]]
kind = "transfer"
name = "zone"
server = "third"
secondaries = ["stub"]
zone = "100 kB"
message = "5 kB"
at = ["9 s", "9050 ms"]

[[traffic]]
kind = "transfer"
name = "small"
server = "third"
secondaries = ["attacker"]
zone = "200 B"
at = ["11 s"]
"""


@pytest.fixture(scope="module")
def results(guest: str) -> tuple[Run, Run]:
    """The same on the kernel and in the simulator."""
    found = Scenario.parse(SCENARIO)
    return run(found, backend=guest), run(found)


def totals(result: Run, name: str) -> dict[str, int]:
    rows = result.table("floods").filter(pl.col("group") == name)
    found = rows.drop("group", "from_s", "t_s", "half_open").sum().row(0, named=True)
    return {**found, "most": rows.get_column("half_open").max()}


def test_syns_fill_the_queue_as_in_the_simulator(results: tuple[Run, Run]) -> None:
    kernel, simulated = (totals(result, "syns") for result in results)
    # The queue takes one entry more than the backlog (`inet_csk_reqsk_queue_is_full`), and no entry
    # leaves it for 3 s.
    queues = (kernel["most"], simulated["most"])
    assert queues == (65, 65)
    # Three more SYNs are those of clients, before the flood.
    for found, queue in zip((kernel, simulated), queues, strict=True):
        assert (found["sent"], found["syns"], found["cookies"]) == (400, 403, 0)
        assert found["dropped"] == 400 - queue
        assert found["repeated"] == found["expired"] == queue


def test_queries_are_answered_as_in_the_simulator(results: tuple[Run, Run]) -> None:
    kernel, simulated = (totals(result, "queries") for result in results)
    same = ("sent", "lost", "replies", "reply_bytes")
    assert [kernel[key] for key in same] == [simulated[key] for key in same]
    assert kernel["reply_bytes"] == 200 * (300 + 28)


def test_zones_come_as_in_the_simulator(results: tuple[Run, Run]) -> None:
    kernel, simulated = (
        result.table("transfers").sort("group", "secondary", "transfer") for result in results
    )
    assert kernel.height == 3
    same = ["group", "secondary", "transfer", "fate", "messages", "bytes"]
    assert kernel.select(same).rows() == simulated.select(same).rows()
    for column in ("established_s", "first_s", "end_s"):
        took = [(found[column] - found["start_s"]).to_list() for found in (kernel, simulated)]
        assert took[0] == pytest.approx(took[1], rel=0.03, abs=0.0005)
