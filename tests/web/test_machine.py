"""Sweeps, kernel runs and run folders on the page, as `narrows lab` serves it."""

from __future__ import annotations

import gzip
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import narrows
from narrows.lab import jobs
from narrows.lab.build import HERE, SITE
from narrows.lab.chosen import Chosen
from narrows.lab.server import Served, Server
from narrows.scenario import Scenario, examples

from . import pretended
from .browser import DONE, Page

READY = f"document.getElementById('machine')?.hidden === false && {DONE}"
SWEEP = "document.getElementById('sweep-state').textContent"
LINUX = "document.getElementById('linux-state').textContent"
CATCH = """globalThis.saved = null;
    URL.createObjectURL = (blob) => { saved = blob; return "#"; };
    HTMLAnchorElement.prototype.click = function () { saved.called = this.download; }"""
BYTES = "saved.arrayBuffer().then((data) => [...new Uint8Array(data)])"


def machine(server: Server, page: Page, name: str = "dns-over-tls") -> None:
    page.open(f"{server.address}#{name}", READY)
    page.ask("document.getElementById('machine').open = true")
    page.until("document.querySelectorAll('#machine select')[0].options.length > 3")


def click(page: Page, what: str) -> None:
    page.ask(f"document.querySelector({json.dumps(what)}).click()")


def choose(page: Page, select: str, value: str) -> None:
    page.ask(
        f"""(() => {{ const select = document.getElementById("sweep-{select}");
          select.value = {json.dumps(value)};
          select.dispatchEvent(new Event("change")); }})()"""
    )


def turn(page: Page, name: str, setting: int) -> None:
    page.ask(
        f"""(() => {{ const input = document.querySelector('[name="{name}"]');
          input.value = {setting}; input.dispatchEvent(new Event("input")); }})()"""
    )
    page.until(DONE)


def test_a_sweep_is_drawn_while_it_grows_and_stops(server: Server, page: Page) -> None:
    machine(server, page)
    names = page.ask("[...document.querySelector('#machine select').options].map((e) => e.value)")
    assert {"rate", "delay", "pfifo-limit"} <= {*names}
    assert "seed" not in names and "red-probability" not in names
    choose(page, "knob", "rate")
    choose(page, "seeds", "1")
    click(page, "#sweep")
    assert page.ask("document.getElementById('sweep').textContent") == "Stop"
    drawn = "document.querySelector('#machine article').drawn.plot.data"
    page.until("document.querySelector('#machine article:not([hidden]) canvas') !== null")
    few = page.ask(f"{drawn}[0].length")
    page.until(f"{SWEEP} === '9 runs'")
    assert page.ask(f"{drawn}[0].length") == 9 >= few
    assert page.ask("document.getElementById('sweep').textContent") == "Start the sweep"
    # The point of the page's own settings has the value of the page's own run.
    choose(page, "metric", "dns.response_median_ms")
    rates, medians = page.ask(drawn)
    shown = page.ask("document.getElementById('metrics').textContent")
    median = medians[rates.index(100)]
    assert f"median{float(f'{median:.3g}'):g} ms" in shown
    turn(page, "delay", 9)
    assert "The knobs have moved" in page.ask(SWEEP)
    assert page.barriers() == []
    # Stop ends it, and keeps what is there.
    choose(page, "seeds", "10")
    click(page, "#sweep")
    page.until(f"/of 90 runs/.test({SWEEP})")
    # It has the metric that the reader chose before.
    page.until("document.getElementById('sweep-metric').value === 'dns.response_median_ms'")
    click(page, "#sweep")
    assert page.ask(SWEEP) == "Stopped."
    page.ask("location.hash = '#downloads'")
    page.until(f"{DONE} && location.hash === '#downloads'")
    assert page.ask(SWEEP) == ""
    assert page.ask("document.querySelector('#machine article').hidden")


@contextmanager
def with_kernel(server: Server, start: str) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_START", start)
        with Server(server.files) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            yield other
            other.shutdown()


def curves(page: Page) -> list[list[Any]]:
    found: list[list[Any]] = page.ask(
        """[...document.querySelectorAll("#plots > *")].flatMap(({ drawing }) =>
          (drawing?.curves ?? []).map(({ label, dash, y }) => [label, dash, y.length]))"""
    )
    return found


def test_a_kernels_run_lies_over_the_simulators_until_a_knob_moves(
    server: Server, page: Page
) -> None:
    with with_kernel(server, pretended.start()) as other:
        machine(other, page, "dns-behind-red")
        assert not any(label.startswith(pretended.NAME) for label, _, _ in curves(page))
        click(page, "#linux")
        page.until(f"{LINUX}.startsWith('Dotted curves: {pretended.NAME}')")
        assert pretended.FLAG in page.ask("document.querySelector('#machine ul').textContent")
        theirs = [each for each in curves(page) if each[0].startswith(f"{pretended.NAME}: ")]
        # What a kernel does not know has no curve.
        labels = [label for label, _, _ in theirs]
        assert f"{pretended.NAME}: mean" in labels and f"{pretended.NAME}: longest" not in labels
        assert len(theirs) > 5 and all(dash == "dots" and count for _, dash, count in theirs)
        heads = page.ask("[...document.querySelectorAll('#metrics th')].map((e) => e.textContent)")
        assert heads[:3] == ["", "this run", pretended.NAME]
        # The pretended kernel has the simulator's run with seed 2.
        column = """[...document.querySelectorAll("#metrics tbody tr")].map((row) =>
            row.lastElementChild.textContent)"""
        kernel = page.ask(column)
        turn(page, "seed", 1)
        assert page.ask(column) == kernel
        assert not any(label.startswith(pretended.NAME) for label, _, _ in curves(page))
        assert page.ask(LINUX) == ""
        page("Page.navigate", url="about:blank")


def test_a_kernels_run_ends_when_it_is_stopped_or_a_knob_moves(server: Server, page: Page) -> None:
    with with_kernel(server, pretended.start(slowly=True)) as other:
        machine(other, page)
        for stop, says in (
            (lambda: click(page, "#linux"), "Stopped."),
            (lambda: turn(page, "delay", 2), "Ended: a knob has moved."),
        ):
            click(page, "#linux")
            page.until(f"{LINUX} === '50 %'")
            stop()
            assert page.ask(LINUX) == says
            assert page.ask("document.getElementById('linux').textContent") == "Run it on Linux"
        page("Page.navigate", url="about:blank")


def test_without_a_kernel_a_line_says_why_and_what_to_do(
    server: Server, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No guest is ready in an empty cache, and this machine's own kernel is out of reach.
    nothing = "import narrows.backends.kernel.available as it; it._host = it._real = it._virtual; "
    monkeypatch.setenv("XDG_CACHE_HOME", "/nonexistent")
    before = jobs._START.partition("from narrows")
    with with_kernel(server, f"{before[0]}{nothing}from narrows{before[2]}") as other:
        machine(other, page)
        click(page, "#linux")
        page.until(f"{LINUX}.includes('hint: ')")
        assert page.ask(LINUX) == (
            "no kernel has the necessary queues, and no guest is ready; hint: run narrows kernel "
            "prepare, which builds one, or apt-get install user-mode-linux"
        )
        assert page.ask("document.querySelectorAll('#machine .wrong').length") == 1
        page("Page.navigate", url="about:blank")


def test_the_run_folder_is_saved_with_one_click(server: Server, page: Page, tmp_path: Path) -> None:
    machine(server, page)
    turn(page, "seed", 1)
    assert page.ask("document.getElementById('save-run').textContent") == "Save run folder"
    page.ask(CATCH)
    click(page, "#save-run")
    # It takes a while; one is enough.
    page.until("document.getElementById('save-run').disabled")
    assert page.ask("state.textContent") == "Running it again, for its folder."
    page.until("saved?.called")
    page.until("!document.getElementById('save-run').disabled")
    assert page.ask("saved.called") == "dns-over-tls-2.zip"
    zipfile.ZipFile(io.BytesIO(bytes(page.ask(BYTES)))).extractall(tmp_path)
    run = narrows.Run.load(tmp_path / "dns-over-tls-2")
    assert run.seed == 2
    share = f"{float(format(run.summary['dns']['first_attempt_percent'], '.3g')):g}"
    shown = page.ask("document.getElementById('metrics').textContent")
    assert f"DNS answered at the first attempt{share} %" in shown


def test_a_static_page_saves_the_scenario_the_command_and_tables(
    server: Server, page: Page, tmp_path: Path
) -> None:
    """What it saves makes the same run: the tables are those that `narrows run` writes."""
    with Server(server.files) as static:
        static.files = {**server.files, HERE: Served(*site_file(HERE))}
        threading.Thread(target=static.serve_forever, daemon=True).start()
        page.open(f"{static.address}#dns-over-tls&delay=50%20ms")
        page.until("document.getElementById('questions').options.length > 1")
        assert page.ask("document.getElementById('machine').hidden")
        assert page.ask("document.getElementById('save-run').textContent") == "Save tables"
        page.ask(CATCH)
        early = """{ tables: {}, why: "stopped after 60 s" }"""
        readme = page.ask(
            f"""import("./save.mjs").then(async ({{ archive }}) =>
              {{ saved = await archive("early", "", "", {early}); return {BYTES}; }})"""
        )
        # The tables of the run before are no run of these settings.
        page.ask(
            """globalThis.said = []; saved = null;
            new MutationObserver(() => said.push(state.textContent))
              .observe(state, { childList: true });
            (() => { const input = document.querySelector("[name=seed]");
              input.value = 1; input.dispatchEvent(new Event("input"));
              document.getElementById("save-run").click();
              document.getElementById("save-csv").click(); })()"""
        )
        wait = "This cannot be saved: wait until the run has ended"
        page.until(f"said.filter((each) => each === {json.dumps(wait)}).length === 2")
        turn(page, "seed", 0)
        assert page.ask("saved") is None
        click(page, "#save-run")
        page.until("saved?.called")
        content = bytes(page.ask(BYTES))
        static.shutdown()
    with zipfile.ZipFile(io.BytesIO(bytes(readme))) as archive:
        said = archive.read("early/README.txt").decode()
    assert "ended early (stopped after 60 s), and so do these tables" in said
    assert "the same tables" not in said
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert archive.testzip() is None
    archive.extractall(tmp_path)
    folder = tmp_path / "dns-over-tls"
    said = (folder / "README.txt").read_text()
    assert "narrows run dns-over-tls.toml\n" in said and "the same tables" in said
    assert "early" not in said
    ours = narrows.run(Scenario.load(folder / "dns-over-tls.toml"))
    path = next(each.path for each in examples() if each.name == "dns-over-tls")
    chosen = Chosen(Scenario.load(path), {"delay": "50 ms"})
    theirs = narrows.run(chosen.base, set=chosen.changes)
    assert ours.summary == theirs.summary
    rows = {name: table.height for name, table in ours.tables.items() if table.height}
    assert {f"{name}.csv" for name in rows} == {each.name for each in folder.glob("*.csv")}
    for name, height in rows.items():
        heads, *lines = (folder / f"{name}.csv").read_text().splitlines()
        assert len(lines) == height
        assert {*heads.split(",")} <= {*ours.tables[name].columns}, name


def site_file(name: str) -> tuple[str, bytes]:
    return "application/json", gzip.compress((SITE / name).read_bytes())
