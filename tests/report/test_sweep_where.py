"""The part of a sweep that a plot shows."""

from __future__ import annotations

from typing import Any

import pytest
from made_sweeps import LIMITS, QUEUES, RATES, figure, made

from narrows.errors import NarrowsError
from narrows.report import plot_sweep
from narrows.results import Axis, compare_sweeps

pytestmark = pytest.mark.slow


def test_where_fixes_a_key() -> None:
    plot = plot_sweep(
        made((LIMITS, RATES)), "loss_percent", "limit", where={"links.wan.rate": "1 Mbit/s"}
    )
    assert [point.settings["queue.limit"] for point in plot.points] == [100, 1000, 10]
    texts = [" ".join(text.get_text().split()) for text in figure(plot).axes[0].texts]
    assert (
        "means of 3 seeds with 95 % intervals; dots: single seeds, beside each "
        "other where they would overlap; links.wan.rate=1 Mbit/s"
    ) in texts


def test_where_takes_names_and_several_values() -> None:
    kinds = Axis("queue", (*QUEUES, {"kind": "red", "limit": 20}, {"kind": "pie"}))
    sweep = made((kinds, LIMITS))

    def shown(where: Any, by: list[str] | None = None) -> list[tuple[Any, Any]]:
        plot = plot_sweep(sweep, "loss_percent", "limit", by or [], where={"queue": where})
        found = {
            (p.settings["queue"]["kind"], p.settings["queue"].get("limit")) for p in plot.points
        }
        return sorted(found, key=str)

    assert shown("pie") == [("pie", None)]
    assert shown({"kind": "pie"}) == [("pie", None)]
    # A name with a comma in it.
    assert shown("red, limit 20") == [("red", 20)]
    both = [("pfifo", 9), ("pie", None)]
    for where in ("pfifo,pie", ["pie", "pfifo"], [{"kind": "pfifo", "limit": 9}, "pie"]):
        assert shown(where, ["queue"]) == both
    # On the axis, too; numbers by themselves.
    plot = plot_sweep(
        sweep, "loss_percent", "queue", ["limit"], {"queue": "pie", "limit": "10,100"}
    )
    assert {p.settings["queue.limit"] for p in plot.points} == {10, 100}
    ticks = [label.get_text() for label in figure(plot).axes[0].get_xticklabels()]
    assert len(ticks) == 1
    with pytest.raises(NarrowsError, match="a mean would mix its values; hint: `by` queue, or"):
        shown("pie,pfifo")
    hint = "queue=codel was not run; hint: one of pfifo, 'red, limit 9', 'red, limit 20', pie$"
    with pytest.raises(NarrowsError, match=hint):
        shown("codel")
    with pytest.raises(NarrowsError, match=hint):
        shown("pie,codel", ["queue"])
    with pytest.raises(NarrowsError, match=hint):
        compare_sweeps([sweep], {"queue": "codel"})


def test_values_are_named_by_their_size_however_they_are_written() -> None:
    sweep = made((LIMITS, RATES))
    plots = [
        plot_sweep(sweep, "loss_percent", "limit", where={"rate": rate}).points
        for rate in ("500 kbit/s", "500kbit/s", "0.5 Mbit/s")
    ]
    assert plots[0] == plots[1] == plots[2]
    (against, *_) = compare_sweeps([sweep], {"rate": "0.5Mbit/s"})
    assert "500 kbit/s" in against.groups[0].label
    for refused in ("0.6 Mbit/s", "500 kB"):
        with pytest.raises(NarrowsError, match="was not run"):
            compare_sweeps([sweep], {"rate": refused})
        with pytest.raises(NarrowsError, match="was not run"):
            plot_sweep(sweep, "loss_percent", "limit", where={"rate": refused})
