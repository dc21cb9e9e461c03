"""Queues that stand still are flagged, and only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.report import write_run_report
from narrows.reproduce.harhalakis_2011 import cells
from narrows.reproduce.harhalakis_2011.paper import PAPER
from narrows.results.compare import compare
from narrows.results.frozen import standstills
from narrows.results.text import summary_table

SECONDS = 200


def samples(**columns: Any) -> pl.DataFrame:
    """Ten samples a second of a queue to which 800 packets come a second, 700 with ECN."""
    t = np.arange(1, 10 * SECONDS + 1) / 10
    zero = np.zeros(t.size)
    known = {"arrived_packets": 800 * t, "dropped_forced": 100 * t, "marked_forced": 700 * t}
    counters = ("dropped_overflow", "dropped_early", "marked_early")
    return pl.DataFrame(
        {"t_s": t, "link": ["wan.forward"] * t.size}
        | dict.fromkeys(counters, zero)
        | known
        | columns
    )


def test_all_marked_and_the_rest_dropped_is_a_standstill() -> None:
    (flag,) = standstills(samples())
    assert flag.startswith("queue wan.forward stood still from 0 to ")
    assert flag.endswith("(see the key neighbours of links)")


def until(end: float, rate: float) -> Any:
    """A counter that grows until a time."""
    t = np.arange(1, 10 * SECONDS + 1) / 10
    return rate * np.minimum(t, end)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"marked_forced": until(SECONDS, 650)}, id="some get through unmarked"),
        pytest.param({"marked_forced": until(53, 700)}, id="as long as ARP lets it"),
        pytest.param(
            {"dropped_forced": until(0, 1), "arrived_packets": until(SECONDS, 700)},
            id="all carry ECN",
        ),
        pytest.param({"marked_forced": until(0, 1)}, id="nothing carries ECN"),
    ],
)
def test_other_queues_are_not_flagged(columns: dict[str, Any]) -> None:
    assert standstills(samples(**columns)) == []


def test_no_sample_is_no_standstill() -> None:
    assert standstills(samples().clear()) == []
    unknown = pl.lit(None, dtype=pl.UInt64)
    assert standstills(samples().with_columns(marked_early=unknown)) == []


def worst(neighbours: str, duration: str) -> Run:
    """The first paper's worst cell: RED, all connections with ECN, 200 ms, 20 ms."""
    settings = {
        **PAPER.cell("red-200-20-all").set,
        "links.bottleneck.neighbours": neighbours,
        "duration": duration,
    }
    return run(Scenario.load(PAPER.folder / "scenarios" / cells.SCENARIO, set=settings))


def test_a_world_without_arp_stands_still_and_one_with_arp_does_not(tmp_path: Path) -> None:
    still, alive = worst("known", "75 s"), worst("arp", "200 s")
    assert alive.flags == []
    (flag,) = still.flags
    assert flag.startswith("queue bottleneck.forward stood still")
    assert f"warning: {flag}" in str(summary_table(still))
    assert any(flag in note for note in compare([still, alive]).notes)
    assert Run.load(still.save(tmp_path / "run").folder or "").flags == [flag]
    page = write_run_report(still, tmp_path / "page").read_text()
    assert "stood still" in page
