"""The distribution `home`: CAKE and FQ-PIE."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest

from narrows import run
from narrows.agreement import home
from narrows.agreement.compare import metrics
from narrows.backends import get
from narrows.scenario import Bulk


def test_draws_stay_in_the_distribution_and_linux_7_takes_them() -> None:
    seen = Counter[str]()
    for number in range(120):
        scenario = home.drawn(7, number)
        ours, theirs = scenario.traffic
        assert isinstance(ours, Bulk) and isinstance(theirs, Bulk)
        bottleneck = scenario.links[0].direction("forward")
        queue: Any = bottleneck.queue
        assert 1.99e6 <= bottleneck.rate <= 30.01e6
        assert 1 <= ours.total <= 20 and 1 <= theirs.total <= 20
        seen.update([queue.kind, f"dscp {theirs.dscp}", f"ecn {ours.tcp.ecn} {theirs.tcp.ecn}"])
        if queue.kind == "cake":
            seen.update([queue.tins, queue.isolation, f"{queue.rate is None} rate"])
            assert queue.rate is None or 0.59 < queue.rate / bottleneck.rate < 0.96
        assert get("kernel-7").refusals(scenario) == []
    assert 70 <= seen["cake"] <= 105 and seen["cake"] + seen["fq-pie"] == 120
    assert min(seen[each] for each in (*home.TINS, *home.ISOLATIONS)) >= 5
    assert min(seen[f"dscp {each}"] for each in (0, 8, 32, 46)) >= 15
    assert min(seen["True rate"], seen["False rate"]) >= 15


def test_a_draw_has_the_share_of_its_first_group_and_that_groups_fairness() -> None:
    result = run(home.drawn(1, 2))
    received = dict(result.flows.group_by("group").agg(pl.col("bytes_received").sum()).iter_rows())
    found = metrics(result)
    share = 100.0 * received["bulk"] / (received["bulk"] + received["others"])
    assert found["share of the first group"] == pytest.approx(share, abs=2.0)
    assert found["Jain's index"] == result.summary["flows"]["groups"]["bulk"]["jain_fairness"]
