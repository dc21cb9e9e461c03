"""The reproduction of BBR beside loss-based TCP: its model, its readings, and a run."""

from __future__ import annotations

import pytest

from narrows.reproduce import select
from narrows.reproduce.claims import Claim, Verdict, judge
from narrows.reproduce.runner import reproduce
from narrows.reproduce.statistics import Interval
from narrows.reproduce.ware_2019.cells import packets
from narrows.reproduce.ware_2019.model import share


def test_the_model_has_the_published_values() -> None:
    """One BBR connection for 400 s, with the time for probes and without."""
    buffers = (1, 2, 4, 8, 16, 32, 64)
    with_probes = [round(share(buffer, 1, 400.0), 3) for buffer in buffers]
    assert with_probes == [0.972, 0.784, 0.629, 0.545, 0.491, 0.440, 0.367]
    without = [round(share(buffer, 1, 400.0, probing=False), 3) for buffer in buffers]
    assert without == pytest.approx([1.0, 0.81, 0.655, 0.578, 0.539, 0.519, 0.510], abs=0.001)


def test_buffers_are_whole_packets() -> None:
    assert [packets(buffer) for buffer in (0.25, 1, 128)] == ["8", "33", "4267"]


@pytest.mark.parametrize(
    ("low", "high", "verdict", "within"),
    [
        (8.0, 8.2, Verdict.UNDECIDED, True),
        (7.0, 8.2, Verdict.UNDECIDED, False),
        (9.0, 9.2, Verdict.FAILS, False),
    ],
)
def test_what_is_read_off_a_plot_never_holds(
    low: float, high: float, verdict: Verdict, within: bool
) -> None:
    claim = Claim(
        "X", "rate", "", ("cell",), lambda _: 0.0, 8.0, 0.3, bounds=(0.0, 10.0), read_from="a plot"
    )
    judged = judge(claim, Interval((low + high) / 2, low, high, 5))
    assert judged.verdict is verdict
    assert judged.within_reading is within
    if within:
        assert judged.seeds_needed is None


def test_bbr_takes_a_short_buffer_and_gives_way_in_a_long_one() -> None:
    ((paper, claims),) = select(["BBR-W1", "BBR-W9"])
    outcome = reproduce(paper, claims=claims, seeds=2, quick=True)
    assert not outcome.failures
    short, long = (outcome.values(cell, "bbr") for cell in ("cubic-0.25", "cubic-64"))
    assert min(short) > 8.0 and max(long) < 2.0
    assert all(
        bbr + other < 9.66
        for bbr, other in zip(short, outcome.values("cubic-0.25", "other"), strict=True)
    )
