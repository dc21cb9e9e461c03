"""The engine of the page gives the tables of the native one, byte for byte."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from narrows import Scenario, _core
from narrows.builds import THIS
from tests.runs.test_modes import drawn

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "python/narrows/lab/site/engine.wasm"
EXAMPLES = sorted((ROOT / "scenarios").glob("*.toml"))
DRAWN = 200
AT_ONCE = 20


def node(script: Path, *words: str | Path) -> str:
    """What a script for Node prints."""
    if not ENGINE.exists():
        pytest.skip("needs the engine of the page: make web")
    if shutil.which("node") is None:
        pytest.skip("needs Node: apt-get install nodejs")
    command = ["node", script, ENGINE, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_engine_names_its_build() -> None:
    assert node(Path(__file__).with_name("version.mjs")) == f"{THIS}\n"


def digest(values: Any) -> str:
    if isinstance(values, list):
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
    return hashlib.sha256(np.asarray(values).tobytes()).hexdigest()


def native(plan: str) -> dict[str, dict[str, str]]:
    simulation = _core.Simulation(plan)
    while not simulation.advance(1_000_000):
        pass
    return {
        name: {column: digest(values) for column, values in columns.items()}
        for name, columns in simulation.tables().items()
    }


def agree(plans: dict[str, str], folder: Path) -> None:
    for name, plan in plans.items():
        (folder / name).write_text(plan)
    files = [folder / name for name in plans]
    found = json.loads(node(Path(__file__).with_name("digests.mjs"), *files))
    for file in files:
        expected = native(plans[file.name])
        for table, columns in expected.items():
            differ = [name for name in columns if columns[name] != found[str(file)][table][name]]
            assert not differ, f"{file.name}: {table}: {differ}"
        assert found[str(file)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_has_the_same_tables_in_webassembly(path: Path, tmp_path: Path) -> None:
    agree({"example.json": json.dumps(Scenario.load(path).plan())}, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, DRAWN, AT_ONCE))
def test_random_plans_have_the_same_tables_in_webassembly(first: int, tmp_path: Path) -> None:
    plans = {
        f"{seed}.json": json.dumps(Scenario.from_dict(drawn(seed)).plan())
        for seed in range(first, first + AT_ONCE)
    }
    agree(plans, tmp_path)


def test_the_engine_refuses_what_is_no_plan_and_goes_on(tmp_path: Path) -> None:
    """Whatever a link holds: text that is no plan, and plans that break a rule."""
    good = json.dumps(Scenario.load(ROOT / "scenarios/downloads.toml").plan())
    wrong = {
        "empty": "",
        "no-json": "<script>alert(1)</script>",
        "no-plan": "{}",
        "deep": "[" * 100_000,
        "negative": good.replace('"rate": ', '"rate": -'),
        "no-link": good.replace('"links": [0', '"links": [900'),
        "no-rate": good.replace('"rate": 1', '"rate": 0, "rate_": 1'),
    }
    for name, text in wrong.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "good").write_text(good)
    script = Path(__file__).with_name("refused.mjs")
    files = [tmp_path / name for name in wrong]
    said = json.loads(node(script, tmp_path / "good", *files))
    assert len(said) == len(wrong)
    for name, why in zip(wrong, said, strict=True):
        assert why and "\n" not in why and len(why) < 1000, name
