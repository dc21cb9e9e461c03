"""Runs on a kernel that were recorded for the page, over the simulator's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from narrows.lab.build import RECORDED, SITE
from narrows.lab.knobs import watched
from narrows.lab.recorded import digest, kernels
from narrows.lab.server import Server, site
from narrows.scenario import Scenario, examples

from . import pretended
from .browser import DONE, DRAWN, Page
from .test_machine import LINUX, curves, machine, turn, with_kernel

FILES = sorted((Path(__file__).parents[2] / "web" / "recorded").glob("*.json"))
EXAMPLES = {each.name: each.path for each in examples()}
BUTTON = "document.getElementById('recorded')"
COLUMN = """[...document.querySelectorAll("#metrics tbody tr")].map((row) =>
    row.lastElementChild.textContent)"""
HEADS = "[...document.querySelectorAll('#metrics th')].map((each) => each.textContent)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_run_is_of_the_example_of_today(path: Path) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))
    scenario = watched(Scenario.load(EXAMPLES[path.stem]))
    again = f"hint: python tools/record_kernel.py {path.stem}"
    assert made["scenario"] == digest(scenario), f"{path.stem} has changed; {again}"
    assert made["seed"] == scenario.seed
    assert made["version"].startswith("6.1.") and "(" in made["narrows"]
    assert path.stat().st_size < 40_000
    # An edit of the example would be noticed.
    changed = scenario.with_({"seed": scenario.seed + 1})
    assert digest(changed) != made["scenario"]


def show(page: Page, server: Server, name: str) -> None:
    page.follow(f"{server.address}#{name}", DRAWN)
    page.until(f"{BUTTON}.hidden === false && {DONE}")
    assert page.ask(f"{BUTTON}.textContent") == "Linux 6.1 (recorded)"
    press(page)


def press(page: Page) -> None:
    page.ask(f"{BUTTON}.click()")
    page.until(
        "document.getElementById('state').textContent.startsWith('Dotted curves: Linux 6.1.')"
    )


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_it_lies_over_the_simulators_run(server: Server, page: Page, name: str) -> None:
    made = json.loads((SITE / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    assert kernels(FILES[0].parent) == json.loads((SITE / RECORDED).read_text(encoding="utf-8"))
    show(page, server, name)
    theirs = [each for each in curves(page) if each[0].startswith("Linux 6.1: ")]
    expected = [curve for plot in made["plots"] for curve in plot.get("curves", ())]
    assert len(theirs) == len(expected) > 4
    assert all(dash == "dots" and points > 10 for _, dash, points in theirs)
    # Each plot that has curves of a kernel has some of this run's, too.
    alone = page.ask(
        """[...document.querySelectorAll("#plots > *")].filter(({ drawing }) =>
          drawing?.curves?.length && drawing.curves.every(({ dash }) => dash)).length"""
    )
    assert alone == 0 and theirs[0][0] == "Linux 6.1: backlog"
    assert page.ask(HEADS)[:3] == ["", "this run", "Linux 6.1"]
    shown = page.ask(COLUMN)
    # Behind a FIFO, a kernel does not say how long packets wait.
    assert sum(map(bool, shown)) == len(made["metrics"]) >= len(shown) - 1


def test_it_is_loaded_on_demand_and_goes_when_a_knob_moves(server: Server, page: Page) -> None:
    page.open(f"{server.address}#dns-behind-red", DRAWN)
    page.until(f"{BUTTON}.hidden === false && {DONE}")
    assert not any("/recorded/" in url for url in page.asked)
    assert not any(label.startswith("Linux") for label, _, _ in curves(page))
    show(page, server, "dns-behind-red")
    assert [url for url in page.asked if "/recorded/" in url] == [
        f"{server.address}recorded/dns-behind-red.json"
    ]
    assert page.ask(f"{BUTTON}.getAttribute('aria-pressed')") == "true"
    assert page.barriers() == []
    turn(page, "seed", 1)
    assert page.ask(f"{BUTTON}.hidden")
    assert not any(label.startswith("Linux") for label, _, _ in curves(page))
    assert "Linux 6.1" not in page.ask(HEADS)
    # Back at its own settings, a reader can ask again; a second click takes it away.
    turn(page, "seed", 0)
    assert page.ask(f"{BUTTON}.getAttribute('aria-pressed')") == "false"
    show(page, server, "dns-behind-red")
    page.ask(f"{BUTTON}.click()")
    assert not any(label.startswith("Linux") for label, _, _ in curves(page))
    page.follow(f"{server.address}#downloads")
    assert page.ask(f"{BUTTON}.hidden")


def test_the_last_of_two_kernels_lies_over_the_plots(server: Server, page: Page) -> None:
    def names() -> set[str]:
        labels = [label for label, dash, _ in curves(page) if dash == "dots"]
        return {label.partition(":")[0] for label in labels}

    with with_kernel(server, pretended.start()) as other:
        machine(other, page, "dns-behind-red")
        show(page, other, "dns-behind-red")
        assert names() == {"Linux 6.1"}
        page.ask("document.getElementById('linux').click()")
        page.until(f"{LINUX}.startsWith('Dotted curves: ')")
        assert names() == {pretended.NAME}
        assert page.ask(f"{BUTTON}.getAttribute('aria-pressed')") == "false"
        page.ask("state.textContent = ''")
        press(page)
        assert names() == {"Linux 6.1"} and "Linux 6.1" in page.ask(HEADS)
        page.ask(f"{BUTTON}.click()")
        assert names() == {pretended.NAME}
        page("Page.navigate", url="about:blank")


def test_a_scenario_of_the_users_has_none_by_its_name(server: Server, tmp_path: Path) -> None:
    mine = tmp_path / "sqm.toml"
    mine.write_text(EXAMPLES["downloads"].read_text())
    listed = [json.loads(files[RECORDED].encoded(None)[1]) for files in (server.files, site(mine))]
    assert "sqm" in listed[0] and listed[1].keys() == listed[0].keys() - {"sqm"}
