"""Connections that their receiver's buffer limits are flagged, and only those."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.results import summary_table
from narrows.results.receivers import limited_by_receivers

LONG = """
name = "long"
duration = "10 s"
[[links]]
name = "wan"
between = ["server", "home"]
rate = "100 Mbit/s"
delay = "50 ms"
queue = { kind = "bfifo", limit = "2 MB" }
[[traffic]]
kind = "bulk"
name = "load"
sender = "server"
receiver = "home"
tcp = { receive_buffer = "300 kB" }
"""


def flows(*rows: tuple[str, float | None, float | None]) -> pl.DataFrame:
    """The group of each connection, its time with data to send, and the limited part."""
    schema = {"group": pl.String, "busy_s": pl.Float64, "rwnd_limited_s": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_one_sentence_names_the_group_the_time_and_the_key() -> None:
    (flag,) = limited_by_receivers(flows(("load", 10.0, 9.0), ("web", 10.0, 0.0)))
    assert flag == (
        "load: its receiver's buffer limited it for 90 % of the time with data to send, and not "
        "the network; hint: a larger traffic.load.tcp.receive_buffer"
    )
    (flag,) = limited_by_receivers(flows(("load", 10.0, 9.0)), windowed=True)
    assert "with data to send (in the whole run), and" in flag


def test_connections_of_a_group_are_counted_apart() -> None:
    """The average of the group is below half, and two of its three connections are above."""
    found = limited_by_receivers(flows(("load", 90.0, 0.0), ("load", 4.0, 3.0), ("load", 6.0, 4.0)))
    assert len(found) == 1
    assert "limited 2 of 3 connections for 70 % of the time" in found[0]


@pytest.mark.parametrize(
    "row", [("load", 10.0, 5.0), ("load", 0.0, 0.0), ("load", None, None)], ids=str
)
def test_half_of_the_time_nothing_to_send_and_no_knowledge_are_no_flag(row: Any) -> None:
    assert limited_by_receivers(flows(row)) == []


@pytest.fixture(scope="module")
def limited() -> Run:
    return run(Scenario.parse(LONG))


def test_a_buffer_below_the_bandwidth_delay_product_is_flagged(limited: Run) -> None:
    """A window of 300 kB a round trip of 100 ms is 24 Mbit/s, on a link of 100 Mbit/s."""
    (row,) = limited.flows.to_dicts()
    (flag,) = limited.flags
    assert limited.summary["flows"]["goodput_mbit_per_s"] == pytest.approx(24.0, rel=0.1)
    # It always has something to send. For the first few round trips, slow start limits it.
    assert row["busy_s"] == pytest.approx(10.0 - row["established_s"], abs=0.002)
    assert row["busy_s"] - 1.0 < row["rwnd_limited_s"] < row["busy_s"]
    assert flag.startswith("load: its receiver's buffer limited it for 9")
    assert "receiver's buffer" in str(summary_table(limited))


def test_a_larger_buffer_mends_it() -> None:
    found = run(Scenario.parse(LONG, set={"traffic.load.tcp.receive_buffer": "8 MB"}))
    (row,) = found.flows.to_dicts()
    assert found.flags == []
    assert found.summary["flows"]["goodput_mbit_per_s"] > 50.0
    assert 0.0 <= row["rwnd_limited_s"] < 1.0


def test_a_window_in_which_it_was_open_says_that_the_flag_does_not_keep_to_it(
    limited: Run,
) -> None:
    found = run(Scenario.parse(LONG, set={"measure.from": "5 s"}))
    assert found.flows.equals(limited.flows)
    (flag,) = found.flags
    assert "(in the whole run)" in flag


def test_a_sender_without_data_is_not_busy() -> None:
    """Five bursts of a segment, a second apart: each is acknowledged after a round trip."""
    text = LONG.replace('"bulk"', '"on-off"\nburst = "1 kB"\nidle_mean = "1 s"\nbursts = 5')
    found = run(Scenario.parse(text, set={"duration": "60 s"}))
    (row,) = found.flows.to_dicts()
    took = found.bursts["end_s"] - found.bursts["start_s"]
    assert row["established_s"] < row["end_s"] < 60.0
    # The first burst waits for the handshake.
    waited = row["established_s"] - found.bursts["start_s"][0]
    assert row["busy_s"] == pytest.approx(took.sum() - waited, abs=0.01)
    assert row["rwnd_limited_s"] == 0.0
