"""Goes through what follows from a new key of links. Run by test_edits.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from narrows import _core

tables = json.loads(_core.settings())
keys = tables["Link"]["keys"]
(share,) = (key for key in tables["GilbertElliott"]["keys"] if key["name"] == "loss_bad")
about = "Probability that a packet comes twice."
keys.append({**share, "default": 0.0, "name": "duplicates", "about": about})
text = json.dumps(tables)
_core.settings = lambda: text

import narrows  # noqa: E402
from narrows import Scenario, ScenarioError  # noqa: E402
from narrows.scenario import Link, json_schema  # noqa: E402

sys.path.insert(0, str(Path(sys.argv[1]) / "tools"))
from scenario_reference import reference  # noqa: E402

assert Path(narrows.__file__).is_relative_to(sys.argv[2]), narrows.__file__

# The language, its two directions, the plan, errors and documents.
VALUES = {"name": "wire", "duration": "1 s"}
LINK = {"name": "l", "between": ["a", "b"], "rate": "1 Mbit/s"}
link = Link(**LINK, duplicates=0.5, backward={"duplicates": 0.25})
assert (link.direction("forward").duplicates, link.direction("backward").duplicates) == (0.5, 0.25)
plan = Scenario.from_dict({**VALUES, "links": [{**LINK, "duplicates": 0.5}]}).plan()
assert [link["duplicates"] for link in plan["links"]] == [0.5, 0.5]
assert "Probability that a packet comes twice." in reference()
assert '"duplicates"' in json.dumps(json_schema())
try:
    Scenario.from_dict({**VALUES, "links": [{**LINK, "duplicates": 2.0}]})
except ScenarioError as error:
    assert "links[0].duplicates" in str(error), error
else:
    raise AssertionError("a probability of 2 was taken")
print("everything knows it")
