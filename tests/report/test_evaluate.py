"""Declared plots give the same drawing in Python and in JavaScript."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import synthetic_run
from two_groups import TWO_GROUPS

import narrows
from narrows.records import Declaration
from narrows.records.plotted import Spans
from narrows.report.comparison_report import declared_comparison
from narrows.report.evaluate import Case, Data, evaluate
from narrows.report.run_report import declared_plots
from narrows.results import Run

pytestmark = pytest.mark.slow

NODE = shutil.which("node") or ""

ASK = """
import { readFileSync } from "node:fs";
import { evaluate } from EVALUATE;
const given = JSON.parse(readFileSync(process.argv[2]));
console.log(JSON.stringify(given.map(({ declared, cases }) => evaluate(declared, cases))));
"""

KINDS = """
name = "kinds"
duration = "20 s"
links = [{ name = "wan", between = ["a", "b"], rate = "10 Mbit/s", delay = "5 ms" }]
dns = [{ name = "stub", client = "a", server = "b", queries = 30, workers = 3 }]

[[traffic]]
kind = "page"
name = "web"
client = "a"
server = "b"
objects = [{ name = "x", size = "9 kB" }]

[[traffic]]
kind = "udp"
name = "load"
sender = "b"
receiver = "a"
rate = "11 Mbit/s"

[[traffic]]
kind = "ping"
name = "probe"
sender = "a"
receiver = "b"

[[traffic]]
kind = "bulk"
name = "many"
sender = "b"
receiver = "a"
connections = 7

[monitor]
flows = ["*"]
queues = { links = ["wan.backward"], rate = 10 }
links = { links = ["wan.backward"], rate = 7 }
"""


def in_javascript(
    plots: Sequence[tuple[Declaration, Mapping[str, Sequence[Run]]]], folder: Path
) -> list[dict[str, Any]]:
    if not NODE:
        pytest.skip("needs Node: apt-get install nodejs")
    given = [
        {
            "declared": declared.document(),
            "cases": [
                {"label": label, "runs": [tables(run) for run in runs]}
                for label, runs in cases.items()
            ],
        }
        for declared, cases in plots
    ]
    (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
    module = files("narrows.report") / "evaluate.js"
    script = folder / "ask.mjs"
    script.write_text(ASK.replace("EVALUATE", json.dumps(str(module))), encoding="utf-8")
    done = subprocess.run(
        [NODE, str(script), str(folder / "given.json")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def tables(run: Run) -> dict[str, Any]:
    columns = {
        name: {column: table.get_column(column).to_list() for column in table.columns}
        for name, table in run.tables.items()
    }
    return {"tables": columns, "end_s": run.end_s}


def check(
    plots: Sequence[tuple[Declaration, Mapping[str, Sequence[Run]]]], folder: Path
) -> list[str]:
    """Compares the drawings; returns the names of plots."""
    for (declared, cases), theirs in zip(plots, in_javascript(plots, folder), strict=True):
        data = [
            Case(label, [Data(run.tables, run.end_s) for run in runs])
            for label, runs in cases.items()
        ]
        ours = evaluate(declared, data)
        where = declared.name
        for name in ("x", "y"):
            axis = getattr(ours, name)
            if ours.bars and name == "y":
                continue
            assert theirs[name]["ends"] == pytest.approx(list(axis.ends)), where
            assert theirs[name]["label"] == axis.label, where
            assert bool(theirs[name].get("log")) is bool(axis.log), where
        assert len(theirs["curves"]) == len(ours.curves), where
        for curve, other in zip(ours.curves, theirs["curves"], strict=True):
            assert (curve.label, curve.color) == (other["label"], other["color"]), where
            assert (curve.shape, curve.dash) == (other["shape"], other.get("dash", False)), where
            assert curve.seed == other.get("seed", False), where
            for mine, its in ((curve.x, other["x"]), (curve.y, other["y"])):
                known = [math.nan if value is None else value for value in its]
                assert known == pytest.approx(mine.tolist(), nan_ok=True), where
        levels = [(each.axis, each.name, each.at) for each in ours.levels]
        other_levels = [(each["axis"], each["name"], each["at"]) for each in theirs["levels"]]
        assert [each[:2] for each in levels] == [each[:2] for each in other_levels], where
        assert [each[2] for each in levels] == pytest.approx([each[2] for each in other_levels])
        bars = theirs.get("bars", [])
        assert [bar.name for bar in ours.bars] == [bar["name"] for bar in bars], where
        for bar, its in zip(ours.bars, bars, strict=True):
            assert bar.text == its.get("text", ""), where
            ends = [end for part in bar.parts for end in (part.begin, part.end)]
            assert [end for p in its.get("parts", []) for end in (p["begin"], p["end"])] == (
                pytest.approx(ends)
            )
            assert (its.get("interval") or ()) == pytest.approx(bar.interval or ()), where
        assert theirs.get("subtitle", "") == ours.subtitle
    return [declared.name for declared, _ in plots]


def test_a_run_is_drawn_alike(tmp_path: Path) -> None:
    groups = narrows.run(narrows.Scenario.parse(TWO_GROUPS, set={"monitor.flows": '["*"]'}))
    kinds = narrows.run(narrows.Scenario.parse(KINDS))
    runs = [synthetic_run(loss=0.4, duration_s=60.0, partial=True), groups, kinds]
    plots = [(declared, {run.name: [run]}) for run in runs for declared in declared_plots(run)]
    (waterfall,) = [each for each, _ in plots if each.name == "page-waterfall"]
    assert isinstance(waterfall.bars, Spans)
    nobodys = replace(waterfall, bars=replace(waterfall.bars, where={"group": "nobody"}))
    plots.append((replace(nobodys, name="page-waterfall-nobody"), {kinds.name: [kinds]}))
    found = set(check(plots, tmp_path))
    assert {"attempts", "response-cdf", "goodput", "burst-cdf", "flow-windows"} <= found
    assert {"page-waterfall", "stream-delay", "stream-loss", "ping-time", "page-cdf"} <= found
    assert {"backlog-wan.backward", "drops-wan.backward", "throughput-wan.backward"} <= found


def test_cases_with_seeds_are_drawn_alike(tmp_path: Path) -> None:
    cases = {
        kind: [synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5) for seed in (1, 2)]
        for kind in ("bfifo", "red")
    }
    first = {label: runs[0] for label, runs in cases.items()}
    plots = [(declared, cases) for declared in declared_comparison(first)]
    assert len(check(plots, tmp_path)) >= 5
