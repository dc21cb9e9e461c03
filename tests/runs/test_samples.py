"""Samples of queues in runs of the simulator."""

import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.report import plots
from narrows.report.shown import shown_of

LINK = "wan.forward"
BYTES = 1000
"""The length of every packet."""


def run_with(red: str) -> Run:
    """A stream at 1.5 times the rate of a link, whose RED is far from its first threshold."""
    scenario = f"""
        name = "overload"
        duration = "2 s"

        [[links]]
        name = "wan"
        between = ["a", "b"]
        rate = "1 Mbit/s"
        forward.queue = {{ kind = "red-1993", {red} }}

        [[traffic]]
        kind = "udp"
        name = "stream"
        sender = "a"
        receiver = "b"
        rate = "1.5 Mbit/s"
        packet = "{BYTES} B"

        [monitor]
        queues = {{ links = ["{LINK}"], rate = 100 }}
    """
    return run(Scenario.parse(scenario))


@pytest.fixture(scope="module")
def in_packets() -> Run:
    return run_with("min = 1000, max = 2000, limit = 2000")


@pytest.fixture(scope="module")
def in_bytes() -> Run:
    return run_with('unit = "bytes", min = "1 MB", max = "2 MB", limit = "2 MB"')


def test_reds_average_has_the_unit_that_the_queue_counts(in_packets: Run, in_bytes: Run) -> None:
    """All packets are equally long, so an average in bytes is that in packets by their length."""
    packets, of_bytes = in_packets.queues, in_bytes.queues
    assert packets["average_bytes"].null_count() == packets.height
    assert of_bytes["average_packets"].null_count() == of_bytes.height
    assert of_bytes["average_bytes"].to_list() == pytest.approx(
        (BYTES * packets["average_packets"]).to_list()
    )
    # 0.5 Mbit/s too much for 2 s are 125 packets; the average follows the backlog from below.
    last = packets.filter(pl.col("t_s") == 2.0)
    assert 10.0 < last["average_packets"].item() < last["backlog_packets"].item() <= 125


def test_the_plot_shows_reds_average_in_either_unit(in_packets: Run, in_bytes: Run) -> None:
    for each, factor in ((in_packets, 1.0), (in_bytes, BYTES / 1e3)):
        drawn = shown_of(plots.backlog({"a": each}, LINK), {"a": each}).drawing
        (line,) = (curve for curve in drawn.curves if curve.label == "RED's average")
        last = in_packets.queues["average_packets"][-1]
        assert line.y[-1] == pytest.approx(factor * last)
