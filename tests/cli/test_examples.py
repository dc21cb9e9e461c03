"""The example scenarios that come with narrows, and copies of them."""

import json
from pathlib import Path

import pytest

from narrows import Scenario
from narrows.errors import NarrowsError
from narrows.scenario import copy_example, example, examples

from .conftest import Narrows

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def test_the_package_holds_every_file_of_the_checkout() -> None:
    shipped = {path.name: path.read_bytes() for path in example("camera").path.parent.iterdir()}
    assert shipped == {path.name: path.read_bytes() for path in SCENARIOS.iterdir()}


def test_each_has_a_line_of_its_own(narrows: Narrows) -> None:
    lines = narrows("examples").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(p.stem for p in SCENARIOS.glob("*.toml"))
    titles = [line.split(maxsplit=1)[1] for line in lines]
    assert len(set(titles)) == len(titles)
    assert all(title.endswith(".") for title in titles)
    listed = json.loads(narrows("examples", "--json").stdout)
    assert [each["title"] for each in listed] == titles


def test_a_copy_is_valid_where_it_lands(tmp_path: Path) -> None:
    # A copy only has the files that came with it, such as traces.
    for each in examples():
        scenario, *_ = copy_example(each.name, tmp_path / each.name)
        Scenario.load(scenario)


def test_files_that_a_scenario_names_come_with_it(narrows: Narrows, tmp_path: Path) -> None:
    done = narrows("examples", "copy", "camera", "--into", "lines")
    assert done.returncode == 0
    assert done.stdout.split() == ["lines/camera.toml", "lines/camera.txt"]
    assert done.stderr == "run it with: narrows run lines/camera.toml\n"
    assert (tmp_path / "lines/camera.txt").read_bytes() == (SCENARIOS / "camera.txt").read_bytes()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "camera.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NarrowsError, match=r"camera\.txt: already exists; hint: "):
        copy_example("camera", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["camera.txt"]
    assert (tmp_path / "camera.txt").read_text(encoding="utf-8") == "mine"


def test_an_unknown_name_has_a_hint(narrows: Narrows) -> None:
    done = narrows("examples", "copy", "dns-behind-rde")
    assert done.returncode == 2
    assert done.stderr.startswith("error: dns-behind-rde: no such example; hint: did you mean")
    assert "dns-behind-red" in done.stderr
