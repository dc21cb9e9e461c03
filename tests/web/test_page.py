"""The laboratory page in Chromium, as `narrows lab` serves it."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import brotli
import pytest

from narrows.builds import THIS
from narrows.lab.build import SITE
from narrows.lab.server import Served, Server, site
from narrows.lab.tour import questions
from narrows.scenario import examples

from .browser import DONE, DRAWN, LATER, Page


def numbers(page: Page) -> str:
    text: str = page.ask("document.getElementById('metrics').textContent")
    return text


def turn(page: Page, name: str, setting: int) -> None:
    """Turns a knob, and waits for the end of its run."""
    page.ask(
        f"""(() => {{
          const input = document.querySelector('[name="{name}"]');
          input.value = {setting};
          input.dispatchEvent(new Event("input", {{ bubbles: true }}));
        }})()"""
    )
    page.until("document.body.dataset.state !== 'running'")


@pytest.mark.slow
@pytest.mark.parametrize("name", [each.name for each in examples()])
def test_every_knob_of_every_example_once(server: Server, page: Page, name: str) -> None:
    """Short runs, so that all can be tried: what counts is that each one starts and is drawn.

    It is drawn out of sight, because to lay out the page takes longer than the runs.
    """
    page.follow(f"{server.address}#{name}", DRAWN)
    assert page.ask("document.querySelectorAll('article').length") >= 1
    tried = page.ask(
        """(async () => {
          const tried = [];
          document.body.style.display = "none";
          for (const input of document.querySelectorAll("#knobs [name]")) {
            const queue = document.querySelector('[name="queue"]');
            const before = input.value;
            const most = Number(input.max || input.options.length - 1);
            for (let n = 0; input.closest(".knob").hidden && n < queue.options.length; n += 1) {
              queue.value = n;
              queue.dispatchEvent(new Event("input"));
            }
            input.value = Number(before) === most ? 0 : most;
            input.dispatchEvent(new Event("input"));
            const { dataset } = document.body;
            while (dataset.state === "running" && !dataset.firstMs) {
              await new Promise((done) => setTimeout(done, 5));
            }
            tried.push([input.name, dataset.state, document.getElementById("state").textContent]);
            input.value = before;
            input.dispatchEvent(new Event("input"));
          }
          document.body.style.display = "";
          return tried;
        })()"""
    )
    assert len(tried) == page.ask("document.querySelectorAll('.knob').length")
    refused = [each for each in tried if each[1] == "refused"]
    assert not refused


def test_a_knob_changes_the_numbers_the_toml_the_command_and_the_link(
    server: Server, page: Page
) -> None:
    page.open(f"{server.address}#dns-behind-red")
    before = numbers(page)
    assert "DNS answered at the first attempt" in before
    turn(page, "queue", 6)
    assert numbers(page) != before
    made = page.ask("document.getElementById('made').textContent")
    assert "--set 'queue={ kind = \"dualpi2\" }'" in made or "dualpi2" in made
    assert page.ask("document.querySelector('#toml .moved').textContent")
    page.until("location.hash === '#dns-behind-red&queue=dualpi2'")
    after = numbers(page)
    page.open(page.ask("location.href"))
    assert numbers(page) == after
    page.ask("document.getElementById('reset').click()")
    page.until("document.body.dataset.state === 'done'")
    assert numbers(page) == before


def test_a_long_run_is_drawn_before_it_ends(server: Server, page: Page) -> None:
    """How soon, `make bench-page` says."""
    seen = f"{DRAWN} && (window.seen ??= document.body.dataset.state)"
    page.open(f"{server.address}#parking-lot", seen)
    assert page.ask("window.seen") == "running"
    page.until(DONE)


def test_a_knob_that_moves_while_a_runs_does_not_end_it(server: Server, page: Page) -> None:
    page.open(f"{server.address}#parking-lot&A", "document.querySelector('[name=seed]') !== null")
    turn(page, "seed", 2)
    page.until("location.hash.includes('&A') && location.hash.includes('seed=')")
    page.until("document.getElementById('plots').textContent.includes('A:')")
    page.until(DONE)


def test_a_pinned_run_is_compared_over_seeds(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-over-tls")
    # The run before has other settings.
    said = page.ask(
        """(() => { const input = document.querySelector("[name=delay]");
          input.dispatchEvent(new Event("input")); pin.click(); return state.textContent; })()"""
    )
    assert said == "This cannot be pinned: wait until the run has ended"
    page.until(DONE)
    assert page.ask("pin.getAttribute('aria-pressed')") == "false"
    page.ask("document.getElementById('pin').click()")
    turn(page, "delay", 9)
    assert "A:" in page.ask("document.getElementById('plots').textContent")
    page.until("location.hash.includes('&A') && location.hash.includes('&delay=')")
    page.ask("document.getElementById('seeds').click()")
    page.until("document.getElementById('metrics').textContent.includes('±')")
    row = page.ask(
        """[...document.querySelectorAll("#metrics tr")].find((row) =>
          row.textContent.includes("Link in use")).lastElementChild.textContent"""
    )
    mean, half = (float(part.split()[0]) for part in row.split("±"))
    assert mean < -half < 0 and "points" in row
    heads, *rows = page.ask(
        """[...document.querySelectorAll("#metrics tr")].map((row) =>
          [...row.children].map((each) => each.textContent))"""
    )
    assert heads[1:3] == ["A, mean of 5 seeds", "B, mean of 5 seeds"]
    for _, first, second, difference in rows:
        of_a, of_b, middle = (float(text.split()[0]) for text in (first, second, difference))
        # Each has three digits.
        assert middle == pytest.approx(of_b - of_a, abs=0.006 * max(of_a, of_b))
        assert "%" not in difference
    shared = page.ask("location.href")
    both = """[...document.querySelectorAll("#metrics tbody tr")].map((row) =>
      [...row.children].slice(0, 3).map((each) => each.textContent))"""
    turn(page, "delay", 8)
    turn(page, "delay", 9)
    seen = page.ask(both)
    page.open(shared)
    page.until("document.getElementById('plots').textContent.includes('A:')")
    assert page.ask(both) == seen


def said_with(server: Server, page: Page, name: str, content: bytes) -> str:
    """What the page says in the end if one of its files has another content."""
    served = server.files[name]._replace(compressed=gzip.compress(content), brotli=None)
    with Server({**server.files, name: served}) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page.open(f"{other.address}#downloads", "/done|refused/.test(document.body?.dataset.state)")
        said: str = page.ask("document.getElementById('state').textContent")
        # It asks for nothing more.
        page("Page.navigate", url="about:blank")
        other.shutdown()
    return said


def test_an_engine_of_another_build_is_named(server: Server, page: Page) -> None:
    page.open(f"{server.address}#downloads")
    assert "narrows" not in page.ask("document.getElementById('state').textContent")
    name = "examples/downloads.json"
    made = json.loads(gzip.decompress(server.files[name].compressed))
    assert made["narrows"] == THIS
    other = {**made, "narrows": "0.1.0 (0123456789ab)"}
    said = said_with(server, page, name, json.dumps(other).encode())
    assert f", by narrows {THIS} instead of 0.1.0 (0123456789ab) (run make web), " in said
    # It may refuse what it does not know.
    other["base"] = {**made["base"], "plan": {**made["base"]["plan"], "novelty": 1}}
    said = said_with(server, page, name, json.dumps(other).encode())
    assert said.startswith("The simulator refuses this: no plan: unknown field `novelty`")
    assert said.endswith("instead of 0.1.0 (0123456789ab) (run make web)")


def test_an_engine_that_the_page_cannot_use_is_no_wait_without_end(
    server: Server, page: Page
) -> None:
    empty = b"\0asm\1\0\0\0"
    said = said_with(server, page, "engine.wasm", empty)
    assert "are of different builds" in said and said.endswith("Run make web.")
    # One without a table that the page draws.
    engine = gzip.decompress(server.files["engine.wasm"].compressed)
    said = said_with(server, page, "engine.wasm", engine.replace(b"flow_states", b"flow_stales"))
    assert said.startswith("The page cannot show this run: ")
    assert page.wrong
    page.wrong.clear()


def test_examples_have_the_names_that_the_documents_use(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-behind-fq-codel")
    shown = page.ask("[...document.getElementById('example').options].map((each) => each.text)")
    assert [each.split(":")[0] for each in shown] == [each.name for each in examples()]
    assert shown == sorted(shown)
    said = page.ask("document.querySelector('#about p').textContent")
    command = "narrows run scenarios/dns-behind-fq-codel.toml --set queue.flows="
    # Sentences run on, and commands keep their lines.
    assert "has FQ-CoDel with tc's defaults: each" in said
    assert f"48 ms:\n  {command}65536\n" in said and f"\n  {command}16" in said


def test_drops_of_a_full_queue_are_called_so(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-behind-fifo")
    card = page.ask(
        """[...document.querySelectorAll("#plots > *")].find((card) =>
          card.textContent.startsWith("Drops and marks")).textContent"""
    )
    assert "dropped, queue full" in card


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("#no-such-example", "No example is called no-such-example"),
        ("#downloads&rate=1e99", "rate = 1e99"),
        ("#downloads&<img src=x onerror=alert(1)>=1", "does not have"),
        ("#downloads&__proto__=1&constructor=2", "does not have"),
        ("#downloads&rate=%E0%A4%A", "does not have"),
        ("#" + "a" * 100_000, "No example is called"),
        ("#downloads" + "&x=1" * 30_000, "does not have"),
        ("#downloads&A.rate=%00&A.x=y", ""),
    ],
)
def test_a_hostile_link_runs_nothing_and_says_what_is_wrong(
    server: Server, page: Page, link: str, says: str
) -> None:
    page.open(server.address + link)
    assert says in page.ask("document.getElementById('state').textContent")
    assert page.ask("document.querySelectorAll('img, iframe').length") == 0
    assert page.ask("document.getElementById('plots').children.length") >= 1


LESSONS = sorted((Path(__file__).parents[2] / "web").glob("lesson-*.json"))


def learn(page: Page, name: str) -> None:
    page.ask(
        f"""(() => {{ const choice = document.getElementById("lessons");
          choice.value = "{name}"; choice.dispatchEvent(new Event("change")); }})()"""
    )
    page.until("document.querySelector('#lesson:not([hidden]) legend') !== null")


def test_a_lesson_shows_no_number_and_no_plot_before_a_prediction(
    server: Server, page: Page
) -> None:
    """Not at the first question, nor at the next, even if a run had begun; nor can a knob ask."""
    page.follow(f"{server.address}#dns-behind-red")
    turn(page, "delay", 3)
    shown = """document.querySelectorAll("#metrics td").length +
        document.querySelectorAll("#plots > *").length"""
    assert page.ask(shown) > 0
    page.ask("document.querySelector('[name=delay]').dispatchEvent(new Event('input'))")
    learn(page, "bufferbloat")
    for number in (1, 2):
        time.sleep(0.5)
        assert f"({number} of" in page.ask("document.querySelector('#lesson h2').textContent")
        assert page.ask(shown) == 0
        assert page.ask("['metrics', 'queries'].every((id) => document.getElementById(id).hidden)")
        assert not any(each.isdigit() for each in page.ask("state.textContent"))
        page.ask("document.querySelector('[name=rate]').focus()")
        assert page.ask("document.activeElement.name !== 'rate'")
        page.ask("document.querySelector('#lesson input').click()")
        assert page.ask(shown) == 0
        page.ask("document.querySelector('#lesson button').click()")
        page.until("document.body.dataset.state === 'done'")
        assert page.ask(shown) > 0
        page.ask("document.querySelector('#lesson button').click()")
    page.ask("location.hash = '#downloads'")
    page.until("document.body.dataset.state === 'done'")
    assert page.ask(shown) > 0 and page.ask("document.getElementById('lesson').hidden")


def test_a_lesson_comes_first_on_a_narrow_page(server: Server, page: Page) -> None:
    page.size(400, 900)
    try:
        page.follow(f"{server.address}#dns-over-tls")
        learn(page, "bufferbloat")
        tops = page.ask(
            """["lesson", "controls", "results"].map((id) =>
              document.getElementById(id).getBoundingClientRect().top)"""
        )
        assert tops == sorted(tops) and 0 < tops[0] < 300
        assert page.ask("document.documentElement.scrollWidth") <= 400
    finally:
        page.size(1280, 900)


@pytest.mark.slow
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_each_step_of_a_lesson_comes_out_as_it_says(server: Server, page: Page, path: Path) -> None:
    lesson = json.loads(path.read_text())
    page.follow(f"{server.address}#dns-over-tls")
    name = path.stem.removeprefix("lesson-")
    learn(page, name)
    for step in lesson["steps"]:
        question = json.dumps(step["question"])
        page.until(f"document.querySelector('#lesson legend')?.textContent === {question}")
        said = page.ask("document.getElementById('lesson').textContent")
        assert step["after"] not in said, "the answer comes after the prediction"
        assert page.ask("document.querySelector('#lesson button').disabled")
        page.ask(f"document.querySelectorAll('#lesson input')[{step['right']}].click()")
        page.ask("document.querySelector('#lesson button').click()")
        page.until("document.body.dataset.state === 'done'")
        said = page.ask("document.getElementById('lesson').textContent")
        assert "You predicted it." in said and step["after"] in said
        metric, low, high = step["expect"]
        value = page.ask(
            f"""[...document.querySelectorAll("#metrics tbody tr")].find((row) =>
              row.firstElementChild.textContent === "{metric}").lastElementChild.textContent"""
        )
        assert low <= float(value.split()[0]) <= high, (step["question"], value)
        shown = page.ask("document.querySelectorAll('.knob.moved').length")
        assert shown == len(step["settings"])
        page.ask("document.querySelector('#lesson button')?.click()")
    assert "That was the lesson" in page.ask("document.getElementById('lesson').textContent")


TOUR = questions((Path(__file__).parents[2] / "docs" / "tour.md").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("asked", TOUR, ids=lambda asked: asked["link"])
def test_a_question_opens_the_runs_that_answer_it(
    server: Server, page: Page, asked: dict[str, str]
) -> None:
    page.follow(f"{server.address}#dns-over-tls")
    page.until("document.getElementById('questions').options.length > 1")
    page.ask(
        f"""(() => {{ const choice = document.getElementById("questions");
          delete document.body.dataset.state;
          choice.value = {json.dumps(asked["link"])};
          choice.dispatchEvent(new Event("change")); }})()"""
    )
    page.until(f"location.hash === {json.dumps(asked['link'])}")
    page.until("document.querySelector('#lesson:not([hidden]) h2') !== null")
    said = page.ask("document.getElementById('lesson').textContent")
    assert said == asked["title"] + asked["answer"].replace("\n\n", "")
    page.until(DONE)
    # Neither the link nor the run has a fault, and the link is what the page itself would write.
    assert not page.ask("document.querySelector('#state.wrong')")
    turn(page, "seed", 1)
    turn(page, "seed", 0)
    page.until(f"location.hash === {json.dumps(asked['link'])}")
    heads = page.ask("[...document.querySelectorAll('#metrics th')].map((e) => e.textContent)")
    assert ("B" in heads) == ("&A" in asked["link"])
    page.ask("document.getElementById('questions').value = ''")
    page.ask("document.getElementById('questions').dispatchEvent(new Event('change'))")
    assert page.ask("document.getElementById('lesson').hidden")


def test_csv_has_the_points_of_the_plots(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-over-tls")
    page.ask(
        """globalThis.saved = null;
        URL.createObjectURL = (blob) => { globalThis.saved = blob.text(); return "#"; };
        HTMLAnchorElement.prototype.click = () => {};
        document.getElementById("save-csv").click()"""
    )
    page.until("saved !== null")
    lines = page.ask("saved").splitlines()
    assert lines[0] == "plot,curve,x,y" and len(lines) > 100
    assert any(line.startswith('"DNS answered by","attempt 1",,') for line in lines)
    page.ask("saved = null; document.getElementById('save-toml').click()")
    page.until("saved !== null")
    assert 'name = "dns-over-tls"' in page.ask("saved")


def test_the_keyboard_reaches_and_turns_a_knob(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-over-tls")
    page.ask("document.querySelector('[name=delay]').focus()")
    before = page.ask("document.querySelector('[name=delay]').value")
    for kind in ("keyDown", "keyUp"):
        page("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight",
             windowsVirtualKeyCode=39)  # fmt: skip
    page.until(f"document.querySelector('[name=delay]').value > {before}")
    page.until("document.body.dataset.state === 'done'")
    page.until("location.hash.includes('delay=')")
    said = page.ask("document.querySelector('[name=delay]').getAttribute('aria-valuetext')")
    assert said.endswith("ms")


@pytest.mark.parametrize(
    ("width", "dark"), [(400, False), (400, True), (1280, False), (1280, True)]
)
def test_the_page_fits_and_can_be_read(server: Server, page: Page, width: int, dark: bool) -> None:
    page.size(width, 900, dark=dark)
    try:
        # A setting that does not exist: an error's words must be readable, too.
        page.open(f"{server.address}#dns-behind-red&rate=fast")
        assert page.ask("document.querySelector('#state.wrong') !== null")
        assert page.ask("document.documentElement.scrollWidth") <= width
        assert page.barriers() == []
    finally:
        page.size(1280, 900)


def test_a_narrow_page_shows_what_a_knob_changes(server: Server, page: Page) -> None:
    """The knobs stay at the top, in less than half of the window."""
    page.size(400, 900)
    try:
        page.follow(f"{server.address}#dns-behind-red")
        page.ask("document.querySelector('#plots').scrollIntoView()")
        top, bottom = page.ask(
            """(({ top, bottom }) => [top, bottom])(controls.getBoundingClientRect())"""
        )
        assert top == 0 and 200 < bottom < 450
        page.ask("document.querySelector('[name=workers]').focus()")
        within = page.ask("document.activeElement.getBoundingClientRect().bottom")
        assert 0 < within <= bottom
    finally:
        page.size(1280, 900)


def test_lessons_and_comparisons_have_no_barriers(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-behind-red&A.delay=40")
    assert page.barriers() == []
    learn(page, "bufferbloat")
    assert page.barriers() == []
    page.ask("document.querySelector('#lesson input').click()")
    page.ask("document.querySelector('#lesson button').click()")
    page.until("document.body.dataset.state === 'done'")
    assert page.barriers() == []


class _Held(dict[str, Served]):
    """Files, of which some are held back until `free`; notes which ones are asked for."""

    def __init__(self, files: dict[str, Served], held: tuple[str, ...]) -> None:
        super().__init__(files)
        self.held, self.free = held, threading.Event()
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        if name.startswith(self.held):
            self.free.wait(60)
        self.asked.add(name)
        return super().get(name, default)


def test_the_page_is_small(server: Server, page: Page) -> None:
    """All of it, and what a browser gets before the first picture."""
    files = server.files.values()
    assert sum(len(each.compressed) + len(each.brotli or b"") for each in files) < 1_500_000
    later = tuple(name for name in LATER if name != "examples/")
    with Server({}) as slow:
        slow.files = held = _Held(server.files, later)
        threading.Thread(target=slow.serve_forever, daemon=True).start()
        page.open(f"{slow.address}#dns-behind-red", DRAWN)
        assert page.ask("document.querySelectorAll('#plots canvas').length") > 3
        first = {name or "index.html" for name in held.asked}
        held.free.set()
        page.until("document.getElementById('questions').options.length > 1")
        page("Page.navigate", url="about:blank")
        slow.shutdown()
    assert {"engine.wasm", "draw/curves.js", "worker.mjs"} < first
    late = {name for name in held.asked if name.startswith(later)}
    assert late >= {"here.json", "recorded.json", "tour.json"}
    assert not any(name.startswith("recorded/") for name in held.asked)
    assert page.encodings[f"{slow.address}engine.wasm"] == "br"
    assert sent(server, first, "gzip, br") < 450_000
    # Where a server has gzip alone.
    assert sent(server, first, "gzip") < 540_000


def sent(server: Server, names: set[str], accepted: str) -> int:
    """The bytes of files for who accepts these encodings."""
    lengths = (len(fetched(server, name, accepted)[1]) for name in names)
    return sum(lengths)


def fetched(server: Server, name: str, accepted: str | None) -> tuple[Message, bytes]:
    """A file's head and its bytes, as sent."""
    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    # Unlike urlopen, this names no encoding unless it is told to.
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    path = urlsplit(server.address).path + name
    connection.putrequest("GET", path, skip_accept_encoding=True)
    for key, value in headers.items():
        connection.putheader(key, value)
    connection.endheaders()
    with contextlib.closing(connection), connection.getresponse() as answer:
        return answer.headers, answer.read()


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("GZIP;q=0.5, br;q=0.2", "gzip"),
        ("br;q=0, *", "gzip"),
        ("*", "br"),
        ("gzip;q=0, br;q=0", None),
        ("deflate", None),
        ("", None),
        (None, None),
        ("br;q=nothing, gzip;q=0.1", "gzip"),
        ("identity, gzip;q=0.5", None),
    ],
)
def test_a_browser_gets_the_encoding_that_it_prefers(
    server: Server, accepted: str | None, encoding: str | None
) -> None:
    whole = (SITE / "main.mjs").read_bytes()
    head, content = fetched(server, "main.mjs", accepted)
    assert head["Content-Encoding"] == encoding
    assert head["Vary"] == "Accept-Encoding"
    assert int(head["Content-Length"]) == len(content)
    decoded = {"br": brotli.decompress, "gzip": gzip.decompress, None: bytes}[encoding](content)
    assert decoded == whole


def test_what_was_not_built_has_no_copy_of_what_was(server: Server, tmp_path: Path) -> None:
    """The list of examples has the user's scenario, and `here.json` says what this server does."""
    mine = tmp_path / "mine.toml"
    mine.write_text(next(e for e in examples() if e.name == "downloads").path.read_text())
    with Server(site(mine)) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        for name in ("examples.json", "here.json", "examples/mine.json"):
            head, content = fetched(other, name, "gzip, br")
            assert head["Content-Encoding"] == "gzip"
            assert b"mine" in gzip.decompress(content) or b'"jobs":true' in gzip.decompress(content)
        other.shutdown()


def test_only_this_host_and_the_secret_open_files(server: Server) -> None:
    def status(path: str, host: str | None = None, method: str = "GET") -> int:
        request = Request(server.address + path, method=method)
        if host:
            request.add_header("Host", host)
        try:
            with urlopen(request, timeout=20) as answer:
                return int(answer.status)
        except OSError as error:
            return int(getattr(error, "code", 0))

    assert status("") == 200 and status("engine.wasm", method="HEAD") == 200
    assert status("", host="evil.example") == 404
    assert status("../") == 404 and status("%2e%2e/build.py") == 404 and status("examples/") == 404
    assert status("", method="POST") == 404
    base = server.address.replace(server.secret, "x" * len(server.secret))
    with pytest.raises(OSError, match="404"):
        urlopen(base, timeout=20)


def test_a_scenario_of_the_users_comes_first(tmp_path: Path) -> None:
    if not (SITE / "engine.wasm").exists():
        pytest.skip("needs the page: make web")
    mine = tmp_path / "mine.toml"
    mine.write_text(next(e for e in examples() if e.name == "downloads").path.read_text())
    files = site(mine)
    listed = json.loads(gzip.decompress(files["examples.json"].compressed))
    assert listed[0] == {"name": "mine", "title": "mine.toml, yours", "own": True}
    made = json.loads(gzip.decompress(files["examples/mine.json"].compressed))
    assert len(made["knobs"]) >= 6
