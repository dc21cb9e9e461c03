"""Every queue of the language is one that the simulator takes."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest

from narrows import Scenario, ScenarioError, _core
from narrows.scenario import queues

from .test_bad_input import with_change

NEEDED: dict[str, dict[str, Any]] = {
    "pfifo": {"limit": 10},
    "bfifo": {"limit": "9 kB"},
    "red": {"limit": "400 kB"},
    "red-1993": {"limit": 60, "min": 10, "max": 30},
}
KINDS = [table.model_fields["kind"].default for table in typing.get_args(queues.AnyQueue)]


def scenario(queue: dict[str, Any]) -> Scenario:
    return Scenario.from_dict(with_change("links/0/queue", queue))


def lowered(queue: dict[str, Any]) -> Any:
    plan = scenario(queue).plan()
    simulation = _core.Simulation(json.dumps(plan))
    simulation.advance(2_000)
    return plan["links"][0]["queue"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_runs_with_its_defaults(kind: str) -> None:
    queue = {"kind": kind, **NEEDED.get(kind, {})}
    lowered(queue)
    read = scenario(queue)
    assert Scenario.from_dict(json.loads(json.dumps(read.resolved()))) == read


MS = 10**9


@pytest.mark.parametrize(
    ("queue", "plan"),
    [
        # tc-codel(8): limit 1000, target 5 ms, interval 100 ms, noecn.
        (
            {"kind": "codel"},
            {
                "codel": {
                    "limit": 1000,
                    "target": 5 * MS,
                    "interval": 100 * MS,
                    "ecn": False,
                    "ce_threshold": None,
                    "mtu": 1514,
                }
            },
        ),
    ],
)
def test_defaults_are_those_of_tc(queue: dict[str, Any], plan: Any) -> None:
    assert lowered(queue) == plan


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"kind": "codel", "target": "0 s"}, "queue.target: must be above zero"),
        ({"kind": "codel", "limit": 0}, "queue.limit: must be at least 1"),
        ({"kind": "codel", "intervall": "1 s"}, 'did you mean "interval"?'),
        ({"kind": "code"}, 'queue.kind: "code" is not known here; hint: did you mean "codel"?'),
    ],
)
def test_impossible_settings_are_refused(queue: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(queue)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
