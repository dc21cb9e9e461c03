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
    "blue": {"limit": 60},
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
        # tc-sfq(8): limit 127, depth 127, divisor 1024, the MTU as quantum, no perturbation.
        (
            {"kind": "sfq"},
            {
                "sfq": {
                    "limit": 127,
                    "depth": 127,
                    "divisor": 1024,
                    "flows": 128,
                    "quantum": 1514,
                    "perturb": 0,
                    "headdrop": False,
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
        ({"kind": "blue", "limit": "9 kB"}, 'queue.limit: is text where unit is "packets"'),
        ({"kind": "blue", "limit": 9, "increment": 0.0}, "queue.increment: must be above 0"),
        ({"kind": "blue", "limit": 9, "idle": "onc"}, 'did you mean "once"?'),
        ({"kind": "sfq", "divisor": 1000}, "queue.divisor: is no power of two; hint: 512 or 1024"),
        ({"kind": "sfq", "depth": 128}, "queue.depth: must be at most 127"),
        ({"kind": "sfq", "quantum": "1 MB"}, 'queue.quantum: must be at most "262136 B"'),
        ({"kind": "drr", "quantum": "0 B"}, "queue.quantum: must be above zero"),
        ({"kind": "drr", "longest_by": "bits"}, 'queue.longest_by: "bits" is not known here'),
        ({"kind": "drr", "weight": 0.5}, "queue.weight: is no known key"),
        ({"kind": "tdrr", "weight": 1.0}, "queue.weight: must be below 1"),
        ({"kind": "tdrr", "sample": "0 s"}, "queue.sample: must be above zero"),
        ({"kind": "tdrr", "sample": 3}, "queue.sample: is a number without a unit"),
        ({"kind": "tdrr", "sample": "packets"}, 'queue.sample: "packets" does not start with a'),
        ({"kind": "qsdrr", "when_empty": "forget"}, "queue.when_empty: "),
        ({"kind": "code"}, 'queue.kind: "code" is not known here; hint: did you mean "codel"?'),
    ],
)
def test_impossible_settings_are_refused(queue: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(queue)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_variants_come_to_the_plan() -> None:
    """Every setting that is not a number, away from its default."""
    blue = lowered({"kind": "blue", "unit": "bytes", "limit": "9 kB", "idle": "once", "ecn": True})
    assert blue["blue"]["limit"] == 9000
    assert (blue["blue"]["unit"], blue["blue"]["idle"]) == ("bytes", "once")
    fair = {"buckets": 16, "longest_by": "packets", "ties": "newest", "drop_from": "tail"}
    assert fair.items() <= lowered({"kind": "drr", **fair})["drr"].items()
    keep = {**fair, "when_empty": "keep"}
    assert keep.items() <= lowered({"kind": "qsdrr", **keep})["qsdrr"].items()
    for sample, plan in (("packet", "packet"), ("50 ms", {"interval": 50 * MS})):
        assert lowered({"kind": "tdrr", "sample": sample})["tdrr"]["sample"] == plan
