"""Which metrics a sweep may have, from its scenario and some of its runs."""

import pytest

from narrows.errors import NarrowsError
from narrows.sweeps.wanted import Wanted

SCENARIO = {
    "traffic": [
        {"kind": "on-off", "name": "near"},
        {"kind": "once", "name": "far"},
        {"kind": "bulk", "name": "bulk"},
    ],
    "dns": [{"name": "stub"}],
}
NOTHING_YET = {
    "dns": None,
    "flows": {"flows": 3},
    "bursts": None,
    "queues": {"wan": {"run": {"loss_percent": 1.0}}},
}


@pytest.mark.parametrize(
    "name",
    [
        "bursts.completion_mean_s",
        "completion_mean_s",
        "bursts.groups.near.completion_mean_s",
        "far.completion_mean_s",
        "dns.response_p95_ms",
        "queues.wan.dns_phase.loss_percent",
        "flows.groups.bulk.goodput_mbit_per_s",
    ],
)
def test_what_may_still_happen_is_not_refused(name: str) -> None:
    row = {"status": "complete", "values": [], "summary": NOTHING_YET}
    Wanted([name], (), SCENARIO).add(row)


@pytest.mark.parametrize(
    "name",
    [
        "bursts.completion_p77_s",
        "bursts.groups.bulk.completion_mean_s",
        "bursts.groups.moon.completion_mean_s",
        "pages.load_p50_s",
        "flows.groups.moon.goodput_mbit_per_s",
        "queues.lan.dns_phase.loss_percent",
        "dns_groups.stub.response_p95_ms",
    ],
)
def test_what_the_scenario_cannot_give_is_refused_at_once(name: str) -> None:
    row = {"status": "complete", "values": [], "summary": NOTHING_YET}
    with pytest.raises(NarrowsError, match=f"there is no metric {name}; hint"):
        Wanted([name], (), SCENARIO).add(row)
