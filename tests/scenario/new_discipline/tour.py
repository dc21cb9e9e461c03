"""Goes through everything that has to know a discipline. Run by test_new_discipline.py.

The extension declares one more discipline; Python has nothing else about it.
"""

from __future__ import annotations

from declared_more import NAME  # isort: skip

import pickle
import sys
from pathlib import Path
from typing import Any

import jsonschema

import narrows.scenario as language
from narrows import Scenario, ScenarioError
from narrows.scenario import json_schema, queues

sys.path.insert(0, str(Path(sys.argv[1]) / "tools"))
from scenario_reference import reference

EarlyDrop = queues.EarlyDrop
VALUES: dict[str, Any] = {
    "name": "early",
    "duration": "1 s",
    "links": [
        {
            "name": "l",
            "between": ["a", "b"],
            "rate": "1 Mbit/s",
            "queue": {"kind": NAME, "limit": 20, "level": 10},
        }
    ],
}


def changed(**keys: object) -> dict[str, Any]:
    link = {**VALUES["links"][0], "queue": {**VALUES["links"][0]["queue"], **keys}}
    return {**VALUES, "links": [link]}


# The language: what a file gives, what is read back, the plan.
scenario = Scenario.from_dict(VALUES)
assert Scenario.from_dict(scenario.resolved()) == scenario
queue = scenario.links[0].queue
assert queue == EarlyDrop(limit=20, level=10)
assert pickle.loads(pickle.dumps(queue)) == queue
settings = {"limit": 20, "level": 10, "probability": 0.02, "ecn": False}
assert scenario.plan()["links"][0]["queue"] == {NAME: settings}

# One line says what is wrong.
for keys, message in [
    ({"limit": 0}, "links[0].queue.limit: must be at least 1"),
    ({"probability": 0.0}, "links[0].queue.probability: must be above 0"),
    ({"levle": 3}, 'links[0].queue.levle: is not a known key; hint: did you mean "level"?'),
    ({"level": 30}, "links[0].queue.level: is above limit; hint: lower it"),
    ({"ecn": 1}, "links[0].queue.ecn: is not true or false"),
    (
        {"kind": "early-drp"},
        f'links[0].queue.kind: "early-drp" is not known here; hint: did you mean "{NAME}"?',
    ),
]:
    try:
        Scenario.from_dict(changed(**keys))
    except ScenarioError as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"{keys} were accepted")

# Inside other disciplines, and by --set.
inside = {"kind": "prio", "bands": [{"name": "all", "queue": {"kind": NAME}}]}
link = {**VALUES["links"][0], "queue": inside}
plan = Scenario.from_dict({**VALUES, "links": [link]}).links[0].queue.plain()
assert plan["prio"]["bands"][0]["queue"] == {NAME: {**settings, "limit": 100, "level": None}}

# The schema and the reference.
schema = json_schema()
jsonschema.validate(VALUES, schema)
assert schema["$defs"]["EarlyDrop"]["properties"]["limit"]["maximum"] == 10_000_000
text = reference()
assert f'## `queue`, `kind = "{NAME}"`\n\nEarly Random Drop (Hashem 1989).\n' in text
assert "| `limit` | whole number, 1 to 10000000 | `100` | Packets that may wait. |" in text

# Plots: the name in titles, and the levels.
direction = scenario.links[0].direction("forward")
assert direction.queue.label == "Early Random Drop"
assert direction.queue.facts.levels == (("level", 10.0), ("limit", 20.0))
assert "EarlyDrop" not in vars(language), "no line in kinds.py was needed"
print("everything knows it")
