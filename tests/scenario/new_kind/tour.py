"""Goes through everything that has to know a kind of traffic. Run by test_new_kind.py."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import jsonschema
import pytest

import narrows
from narrows import Run, Scenario, ScenarioError
from narrows.report.comparison_report import comparison_plots
from narrows.report.run_report import write_run_report
from narrows.results import compare, summary_table
from narrows.results.schema import reference as tables
from narrows.scenario import Beacon, json_schema

sys.path.insert(0, str(Path(sys.argv[1]) / "tools"))
from scenario_reference import reference

assert Path(narrows.__file__).is_relative_to(sys.argv[2]), narrows.__file__

VALUES = {
    "name": "field",
    "duration": "10 s",
    "links": [
        {"name": "l{i}", "between": ["n{i}", "c"], "rate": "1 Mbit/s", "count": 3},
    ],
    "traffic": [
        {
            "kind": "beacon",
            "name": "birds",
            "nodes": ["n{i}"],
            "collector": "c",
            "every": "2 s",
            "count": 3,
        }
    ],
}


def changed(**keys: object) -> dict[str, object]:
    return {**VALUES, "traffic": [{**VALUES["traffic"][0], **keys}]}


# The language: copies, the scenario's line, the plan, what a file gives and what is read back.
scenario = Scenario.from_dict(VALUES)
(birds,) = scenario.traffic
assert isinstance(birds, Beacon)
assert birds.nodes == ("n0", "n1", "n2")
assert repr(scenario) == "<Scenario field: 3 links, 3 beacons, at most 10 s>"
assert Scenario.from_dict(scenario.resolved()) == scenario
plan = scenario.plan()
assert plan["applications"] == [
    {
        "name": "birds",
        "kind": {"beacon": {"paths": [0, 1, 2], "every": 2 * 10**12, "octets": 100}},
    }
]
assert [path["links"] for path in plan["paths"]] == [[0], [2], [4]]
override = Scenario.from_dict(
    {**VALUES, "traffic": [{**VALUES["traffic"][0], "form": {"octets": 9}}]}
)
assert override.plan()["applications"][0]["kind"]["beacon"]["octets"] == 9
jsonschema.Draft202012Validator(json_schema()).validate(VALUES)

# Errors in it, each with its key.
for values, words in (
    (changed(collector="d"), r'traffic\[0\]\.collector: "d" is not a node; hint: one of'),
    (changed(nodes=["n0", "x"], count=1), r'traffic\[0\]\.nodes\[1\]: "x" is not a node'),
    (changed(start="10 s"), r'traffic\[0\]\.start: "10 s" is not before the end'),
    (changed(nodes=["n0"] * 501), r"traffic\[0\]\.nodes: brings the beacons to 501; at most 500"),
    (changed(evry="1 s"), r'traffic\[0\]\.evry: is not a known key; hint: did you mean "every"'),
    (changed(kind="beacn"), r'traffic\[0\]\.kind: "beacn" is not known here; hint: did you mean'),
    (changed(nodes="n"), r"traffic\[0\]\.count: needs nodes; hint: such as nodes = "),
):
    with pytest.raises(ScenarioError, match=words):
        Scenario.from_dict(values)

# Its documents.
page = reference()
assert '## `[[traffic]]`, `kind = "beacon"`\n\nBeacons that nodes send' in page
assert "| `collector` | text (a name) | **required** | Who listens. |" in page
assert "## `form`\n\nWhat a beacon looks like.\n" in page
assert "500 beacons" in " ".join(page.split())
assert "### `beacons.parquet`\n\nOne row: a beacon.\n" in tables()
assert "| `delay_median_ms` | ms | Delay, median. |" in tables()


def run(delays: list[float], groups: list[str] | None = None) -> Run:
    columns = {
        "group": groups or ["birds"] * len(delays),
        "sent_s": [float(number) for number in range(len(delays))],
        "delay_ms": delays,
    }
    facts = {"seed": len(delays), "backend": "sim", "status": "complete", "stopped": "end"}
    return Run.from_columns(
        {"beacons": columns, "bursts": NO_BURSTS},
        scenario=scenario.resolved(),
        end_s=10.0,
        events=1,
        narrows="0",
        **facts,
    )


NO_BURSTS = {
    name: [] for name in ("flow", "burst", "start_s", "end_s", "bytes", "segments_retransmitted")
}

# The run folder, its summary and its reports.
with tempfile.TemporaryDirectory() as folder:
    nan = float("nan")
    saved = run([2.0, 4.0, nan, 9.0]).save(Path(folder) / "a")
    names = {path.stem for path in (Path(folder) / "a").glob("*.parquet")}
    assert names == {"flows", "queries", "attempts", "queues", "links", "beacons"}
    loaded = Run.load(Path(folder) / "a")
    assert loaded.tables["beacons"].equals(saved.tables["beacons"])
    assert loaded.summary["beacons"] == {"sent": 4, "delay_median_ms": 4.0, "sent_per_s": 0.4}
    assert loaded.bursts.is_empty()
    text = str(summary_table(loaded))
    assert "beacons\n  sent" in text
    assert "4000  us" in text
    html = write_run_report(loaded, kinds=["svg"]).read_text()
    assert "Curve: half of the beacons took 4 ms." in html
    assert "half of the beacons within" in html
    assert (Path(folder) / "a" / "plots" / "beacon-delay.svg").is_file()
two = run([1.0, 3.0], ["birds", "bees"])
assert two.summary["beacons"]["groups"]["bees"]["delay_median_ms"] == 3.0
assert "beacons, group bees" in str(summary_table(two))
found = compare([run([1.0, 2.0]), run([4.0, 4.0, 5.0])])
assert {row.key for row in found.rows} >= {"beacons.sent", "beacons.delay_median_ms"}
assert "beacon-delay" in {shown.name for shown in comparison_plots(found)}
assert run([]).summary["beacons"] is None
print("everything knows it")
