"""The patches of knobs give what lowering the scenario in full gives, and so does the page.

To find an example's patches takes hundreds of lowerings, and building the page has done it: the
tests read what it found from the page's files.
"""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from narrows.errors import ScenarioError
from narrows.lab.build import SITE, about, described, written
from narrows.lab.knobs import watched
from narrows.lab.patches import Patches, apart, difference, patched, together
from narrows.scenario import Example, Scenario, examples
from narrows.scenario.toml_text import toml_text

from .test_engine import node

SETTINGS = 50


def plain(value: Any) -> Any:
    """As a page reads it: JSON, where 1.0 is 1."""
    return json.loads(json.dumps(value), parse_float=lambda text: float(text))


def page_file(example: Example) -> Path:
    """The file that the page reads of an example."""
    path = SITE / "examples" / f"{example.name}.json"
    if not path.exists():
        pytest.skip("needs the page: make web")
    return path


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("traffic.downloads.tcp.congestion", "mine", "traffic.downloads.tcp.congestion: is one"),
        ("links.bottleneck.forward.queue", {"kind": "plugin", "name": "q"}, "forward: queue: is"),
        (
            "links.bottleneck.forward.queue",
            {"kind": "prio", "bands": [{"name": "b", "queue": {"kind": "plugin", "name": "q"}}]},
            "of your own, and nothing here offers it; hint: --plugin",
        ),
    ],
)
def test_parts_of_ones_own_are_refused(key: str, value: Any, words: str, tmp_path: Path) -> None:
    (behind,) = (each for each in examples() if each.name == "dns-behind-fifo")
    path = tmp_path / "mine.toml"
    path.write_text(toml_text(Scenario.load(behind.path, set={key: value}).written()))
    with pytest.raises(ScenarioError, match=words):
        described(Example("mine", "Mine", path))


class Found(Patches):
    """The patches that are in the page's file of an example."""

    def __init__(self, example: Example) -> None:
        self._page = json.loads(page_file(example).read_text(encoding="utf-8"))
        super().__init__(watched(Scenario.load(example.path)), example.path.parent)
        assert plain(written(example, self)) == plain(self._page), "the page is old: make web"

    def _add(self, number: int) -> None:
        knob = self._page["knobs"][number]
        self.contexts.append([self._place(name) for name in knob["context"]])
        self.patches.append(
            {
                tuple(map(int, filter(None, around.split(",")))): [
                    self._page["patches"][patch] for patch in of_settings
                ]
                for around, of_settings in knob["patches"].items()
            }
        )


def drawn(patches: Patches, count: int) -> list[list[int]]:
    chance = random.Random(patches.scenario.name)
    return [[chance.randrange(len(knob.settings)) for knob in patches.knobs] for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_patches_give_the_plan_and_the_toml_of_the_full_lowering(
    example: Example, tmp_path: Path
) -> None:
    patches = Found(example)
    assert together(patches.base["plan"]) == patches.scenario.plan()
    tried = drawn(patches, SETTINGS)
    expected = []
    for settings in tried:
        whole = patches.lower(settings)
        assert plain(patches.apply(settings)) == plain(whole), settings
        expected.append((patches.scenario.with_(patches.changes(settings)), whole["toml"]))
    # The page's own code, with the file that it reads.
    file = page_file(example)
    folder = str(example.path.parent)
    assert folder not in file.read_text(), "a folder of the machine that built the page"
    (tmp_path / "settings.json").write_text(json.dumps(tried))
    script = Path(__file__).with_name("lowered.mjs")
    found = json.loads(node(script, file, tmp_path / "settings.json"))
    for (scenario, values), (plan, toml) in zip(expected, found, strict=True):
        assert plan == plain(scenario.plan())
        assert plain(tomllib.loads(toml)) == plain(values)


def test_each_knob_of_each_example_changes_something_in_each_setting() -> None:
    patches = Found(examples_by_name("dns-behind-red"))
    names = [knob.name for knob in patches.knobs]
    expected = "queue rate delay red-min fq-pie-flows ecn transport retry"
    assert set(expected.split()) <= set(names)
    assert len(names) == len(set(names))
    for number, knob in enumerate(patches.knobs):
        settings = list(patches.own)
        if knob.needs:
            settings[names.index(knob.needs[0])] = knob.needs[1]
        plans = []
        for at in range(len(knob.settings)):
            settings[number] = at
            plans.append(json.dumps(patches.lower(settings)["plan"]))
        assert len(set(plans)) == len(plans), knob.name


def examples_by_name(name: str) -> Example:
    return next(each for each in examples() if each.name == name)


def test_the_page_has_what_the_search_finds() -> None:
    example = examples_by_name("downloads")
    assert plain(described(example)) == plain(json.loads(page_file(example).read_text()))


def test_six_knobs_or_more_are_shown_for_what_has_a_queue() -> None:
    patches = Found(examples_by_name("downloads"))
    assert sum(patches.active(at, patches.own) for at in range(len(patches.knobs))) >= 6


def test_a_list_that_shrinks_or_grows_keeps_the_changes_of_others() -> None:
    before, longer = {"a": [{"x": 1}, {"x": 1}]}, {"a": [{"x": 1}, {"x": 1}, {"x": 2}]}
    patch = difference(before, longer)
    assert patched(before, patch) == longer
    assert patched({"a": [{"x": 7}, {"x": 1}]}, patch) == {"a": [{"x": 7}, {"x": 1}, {"x": 2}]}
    assert patched(longer, difference(longer, {"a": []})) == {"a": []}


def test_tcp_settings_of_applications_are_numbered_apart_and_together_again() -> None:
    plan = Scenario.load(examples_by_name("bbr-beside-cubic").path).plan()
    own = apart(plan)
    assert len(plan["tcp"]) >= 2 and own["tcp"] == []
    assert [len(each["tcp"]) for each in own["applications"][:2]] == [1, 1]
    assert together(own) == plan


def test_about_is_the_comment_at_the_top() -> None:
    assert about("# A\n# b\n#\n# c\nname = 'x'\n# d") == "A\nb\n\nc"
