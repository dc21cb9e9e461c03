"""The page with queues and congestion controls of one's own, which the server runs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import narrows
from narrows import NarrowsError, _core, lab
from narrows.backends import parts_from_outside
from narrows.controls import Control
from narrows.lab.build import SITE
from narrows.lab.native import Processes
from narrows.lab.own import marked, placed
from narrows.lab.server import Served, Server
from narrows.queues import DROP, PASS, Compiled, Packet, Queue
from narrows.scenario.toml_text import toml_text
from tests.runs.own import compiled, scenario
from tests.runs.test_own_queues import ADMIT

from .browser import Page

LINK = "wan.forward"
TYPES = {"f64": np.float64, "u64": np.uint64, "u32": np.uint32, "u8": np.uint8}


class _Tail(Queue):
    def __init__(self, most: int = 20) -> None:
        self.most = most

    def admit(self, backlog: int, _bytes: int, _now: float, _packet: Packet) -> int:
        return DROP if backlog >= self.most else PASS


class _Gentle(Control):
    def __init__(self, factor: float = 0.8) -> None:
        self.factor = factor

    def on_loss(self, _now: float) -> None:
        self.ssthresh = self.factor * self.cwnd


class _Fails(Queue):
    def admit(self, _backlog: int, _bytes: int, now: float, _packet: Packet) -> None:
        if now > 3:
            raise ZeroDivisionError("at three")


class _Blocks(Queue):
    def __init__(self, after: float = 1.0) -> None:
        self.after = after

    def admit(self, _backlog: int, _bytes: int, now: float, _packet: Packet) -> None:
        while now > self.after:
            pass


class _Dies(Queue):
    def admit(self, _backlog: int, _bytes: int, now: float, _packet: Packet) -> None:
        if now > 1:
            os._exit(3)


@contextmanager
def runs(**parts: Any) -> Iterator[Server]:
    """A server with parts, and without a page."""
    files: dict[str, Served] = {}
    with Server(files, parts=parts_from_outside(**parts)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def request(
    server: Server, plan: Any, ms: float = 60_000, story: Any = None, body: bytes | None = None
) -> Request:
    limits = {"events": 30_000_000, "ms": ms}
    made = body or json.dumps({"plan": plan, "limits": limits, "story": story}).encode()
    origin = server.address.partition(f"/{server.secret}")[0]
    headers = {"Origin": origin, "Content-Type": "application/json"}
    return Request(f"{server.address}run", data=made, headers=headers)


def messages(asked: Request) -> list[tuple[dict[str, Any], bytes]]:
    found = []
    with urlopen(asked, timeout=60) as answer:
        while line := answer.readline():
            facts = json.loads(line)
            found.append((facts, answer.read(facts["bytes"])))
    return found


def last(asked: Request) -> tuple[dict[str, Any], bytes]:
    return messages(asked)[-1]


def column(tables: bytes, table: str, name: str) -> np.ndarray[Any, Any]:
    """A column of numbers."""
    end = tables.index(b"\n") + 1
    for each in json.loads(tables[:end])["tables"]:
        for head in each["columns"]:
            if (each["name"], head["name"]) == (table, name):
                return np.frombuffer(tables[end : end + head["bytes"]], TYPES[head["type"]])
            end += head["bytes"]
    raise KeyError(name)


def received(tables: bytes) -> int:
    return int(column(tables, "flows", "bytes_received").sum())


def plan_with(queue: Queue, **more: Any) -> dict[str, Any]:
    parts = parts_from_outside({LINK: queue})
    assert parts is not None
    return marked(narrows.Scenario.of(scenario(**more)), parts).plan()


def test_a_queue_in_python_runs_with_the_numbers_of_the_plan() -> None:
    with runs(queues={LINK: _Tail(20)}) as server:
        for most in (20, 60):
            facts, tables = last(request(server, plan_with(_Tail(most))))
            assert (facts["state"], facts["why"], facts["failed"]) == ("done", "", False)
            theirs = narrows.run(scenario(), queues={LINK: _Tail(most)})
            assert received(tables) == theirs.flows["bytes_received"].sum()
        # Another queue in the plan is that queue.
        other = scenario()
        other["links"][0]["queue"] = {"kind": "codel"}
        _, tables = last(request(server, narrows.Scenario.of(other).plan()))
        assert received(tables) == narrows.run(other).flows["bytes_received"].sum()


def test_the_bytes_are_those_of_the_engine() -> None:
    """A plan without parts, whose tables `_core.Simulation` gives as columns, too."""
    plan = narrows.Scenario.of(scenario()).plan()
    with runs(queues={LINK: _Tail()}) as server:
        _, tables = last(request(server, plan))
    simulation = _core.Simulation(json.dumps(plan))
    while not simulation.advance(1_000_000):
        pass
    assert tables == simulation.written()
    for table, columns in simulation.tables().items():
        for name, values in columns.items():
            if isinstance(values, np.ndarray) and values.dtype != bool:
                theirs = column(tables, table, name)
                assert theirs.dtype == values.dtype and np.array_equal(
                    theirs, values, equal_nan=values.dtype == np.float64
                )


def test_a_control_has_the_numbers_of_each_group() -> None:
    values = scenario({"congestion": "gentle"})
    values["traffic"].append(
        {**values["traffic"][0], "name": "down", "sender": "b", "receiver": "a"}
    )
    parts = parts_from_outside(controls={"gentle": _Gentle()})
    assert parts is not None
    made = marked(narrows.Scenario.of(values), parts)
    changed = made.with_({"traffic.up.tcp.congestion.factor": 0.5})
    plan, bound = placed(changed.plan(), parts)
    found = {name: control.numbers() for name, control in bound.controls.items()}
    assert sorted(each["factor"] for each in found.values()) == [0.5, 0.8, 0.8]
    with runs(controls={"gentle": _Gentle()}) as server:
        _, half = last(request(server, changed.plan()))
        _, same = last(request(server, made.plan()))
    assert received(half) != received(same)
    theirs = narrows.run(values, controls={"gentle": _Gentle(0.8)})
    assert received(same) == theirs.flows["bytes_received"].sum()
    assert bound.wrong(plan) == []


def test_compiled_functions_run() -> None:
    function = ADMIT(lambda state, backlog, *_: 2 if backlog >= state[0] else 0)
    queue = Compiled(admit=function_address(function), state=np.array([20.0]))
    with runs(queues={LINK: queue}) as server:
        facts, tables = last(request(server, plan_with(queue)))
    assert facts["state"] == "done"
    assert received(tables) == narrows.run(scenario()).flows["bytes_received"].sum()


def function_address(function: Any) -> int:
    import ctypes

    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def test_an_exception_is_a_line_and_what_there_is_stays(capfd: pytest.CaptureFixture[str]) -> None:
    with runs(queues={LINK: _Fails()}) as server:
        facts, tables = last(request(server, plan_with(_Fails())))
    assert (facts["state"], facts["failed"]) == ("done", True)
    words = "a queue from outside failed: wan.forward: _Fails: ZeroDivisionError: at three"
    assert facts["why"] == words
    assert 3 < facts["now_s"] < 3.1 and received(tables) > 0
    assert "in admit" in capfd.readouterr().err


def test_a_process_that_dies_takes_only_its_run_with_it() -> None:
    with runs(queues={LINK: _Dies()}) as server:
        found = messages(request(server, plan_with(_Dies())))
        assert all(facts["state"] == "running" for facts, _ in found)
        facts, _ = last(request(server, narrows.Scenario.of(scenario()).plan()))
        assert facts["state"] == "done"


def test_code_that_blocks_ends_at_the_limit_and_when_the_page_goes_away() -> None:
    with runs(queues={LINK: _Blocks()}) as server:
        began = time.monotonic()
        facts, _ = last(request(server, plan_with(_Blocks()), ms=300))
        assert facts["why"].startswith("stopped after 0.3 s: the code of a part of your own")
        assert time.monotonic() - began < 20
        asked = request(server, plan_with(_Blocks()))
        host, port = server.server_address[:2]
        for _ in range(20):
            # More than may run at a time: each one ends when its connection does.
            with socket.create_connection((str(host), int(port))) as page:
                head = "".join(f"{key}: {value}\r\n" for key, value in asked.header_items())
                body = asked.data
                assert isinstance(body, bytes)
                path = asked.selector
                words = f"POST {path} HTTP/1.0\r\nHost: {host}:{port}\r\n{head}"
                page.sendall(f"{words}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                assert page.recv(12) == b"HTTP/1.0 200"
            _until_free(server)


def _until_free(server: Server) -> None:
    end = time.monotonic() + 20
    while server.runs._value < 8:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_limits_are_the_servers_too() -> None:
    plan = narrows.Scenario.of(scenario(duration="1000 s")).plan()
    with runs(queues={LINK: _Tail()}) as server:
        body = json.dumps({"plan": plan, "limits": {"events": 20_000, "ms": 1e9}}).encode()
        facts, tables = last(request(server, plan, body=body))
    assert facts["why"] == "stopped after 0.02 million events" and received(tables) > 0
    assert 20_000 <= facts["events"] < 1_100_000


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "the request is no run"),
        (b"[]", "the request is no run"),
        (b'{"plan": 3}', "the request is no run"),
        (b'{"plan": {"links": [], "tcp": []}}', "the request is no run: KeyError('limits')"),
        (
            b'{"plan": {"links": [], "tcp": []}, "limits": {"events": 1, "ms": 1}}',
            "missing field",
        ),
        (b'{"plan": {"links": [{"name": 1, "queue": 3}]}}', "the request is no run"),
        (b"\xff", "the request is no run"),
        (b"[" * 99_999, "the request is no run: RecursionError"),
        (
            b'{"plan": {"links": [], "tcp": []}, "limits": {"events": Infinity}}',
            "the request is no run: OverflowError",
        ),
    ],
)
def test_what_is_no_run_is_a_line(body: bytes, why: str) -> None:
    with runs(queues={LINK: _Tail()}) as server:
        facts, _ = last(request(server, None, body=body))
    assert facts["state"] == "refused" and why in facts["why"] and "\n" not in facts["why"]


def test_only_a_page_of_this_server_may_ask() -> None:
    plan = narrows.Scenario.of(scenario()).plan()
    with runs(queues={LINK: _Tail()}) as server, Server({}) as without:
        good = request(server, plan)

        def status(headers: dict[str, str], path: str = good.full_url) -> int:
            asked = Request(path, data=good.data, headers={**dict(good.header_items()), **headers})
            with pytest.raises(HTTPError) as caught:
                urlopen(asked, timeout=20)
            with caught.value as refused:
                return refused.code

        assert status({"Origin": "http://evil.example"}) == 403
        assert status({"Origin": "null"}) == 403
        assert status({"Host": "evil.example", "Origin": "http://evil.example"}) == 404
        assert status({"Content-type": "text/plain"}) == 415
        assert status({"Content-length": "-1"}) == 411
        assert status({"Content-length": str(1 << 40)}) == 413
        assert status({}, f"{server.address}other") == 404
        assert status({}, good.full_url.replace(server.secret, "x" * 22)) == 404
        thread = threading.Thread(target=without.serve_forever, daemon=True)
        thread.start()
        assert status({}, f"{without.address}run") == 404
        without.shutdown()


def test_processes_end_with_the_server() -> None:
    parts = parts_from_outside({LINK: _Blocks()})
    assert parts is not None
    processes = Processes(parts)
    limits = {"events": 10**9, "ms": 60_000}
    asked = json.dumps({"plan": plan_with(_Blocks()), "limits": limits}).encode()
    with processes.run(asked) as run:
        time.sleep(0.3)
        processes.close()
        with pytest.raises(ChildProcessError):
            os.waitpid(processes._child, os.WNOHANG)
        run.setblocking(False)
        with pytest.raises(OSError):
            processes.run(b"")


def needs_the_page() -> None:
    if not (SITE / "engine.wasm").exists():
        pytest.skip("needs the page: make web")


NAME = "mine"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Page]:
    needs_the_page()
    values = scenario({"congestion": "gentle"}, name=NAME, duration="30 s")
    with lab.open_page(
        values, queues={LINK: _Tail(40)}, controls={"gentle": _Gentle()}, browser=False
    ) as page:
        yield page


@contextmanager
def opened(page: Page, shows: str, *source: Any, **parts: Any) -> Iterator[None]:
    """A page of parts, until something is shown; it leaves before its server does."""
    with lab.open_page(*source, **parts, browser=False) as own:
        page.open(own.address + f"#{NAME}", f"document.body?.dataset.state === '{shows}'")
        yield
        page.ask("import('./stories.mjs').then(() => true)")
        page("Page.navigate", url="about:blank")


def state(page: Page) -> str:
    text: str = page.ask("document.getElementById('state').textContent")
    return text


def turn(page: Page, name: str, setting: int, until: str = "!== 'running'") -> None:
    page.ask(
        f"""(() => {{
          const input = document.querySelector('[name="{name}"]');
          input.value = {setting};
          input.dispatchEvent(new Event("input", {{ bubbles: true }}));
        }})()"""
    )
    page.until(f"document.body.dataset.state {until}")


def goodput(page: Page) -> str:
    text: str = page.ask("document.getElementById('metrics').textContent")
    return text


def test_the_page_shows_what_narrows_computes(own: lab.Page, page: Page) -> None:
    page.open(f"{own.address}#{NAME}")
    assert re.search(r"30\.0 s simulated in \d+ ms, by narrows on this machine", state(page))
    assert "on this machine" in page.ask("document.querySelector('footer').textContent")
    shown = page.ask(
        "[...document.querySelectorAll('#knobs .knob:not([hidden])')].map((k) => k.textContent)"
    )
    assert any(each.startswith("most of _Tail40") for each in shown), shown
    assert any(each.startswith("factor of gentle0.8") for each in shown), shown
    before = goodput(page)
    for name, setting in (("own-most", 0), ("control-up-factor", 0), ("queue", 5)):
        turn(page, name, setting)
        assert page.ask("document.body.dataset.state") == "done"
        assert goodput(page) != before
        before = goodput(page)
    made = page.ask("document.getElementById('made').textContent")
    assert "Only narrows.run in Python has _Gentle, _Tail." in made
    # Examples are the browser's again.
    page.follow(f"{own.address}#downloads")
    assert "narrows on this machine" not in state(page)


def test_seeds_and_a_pinned_run_work(own: lab.Page, page: Page) -> None:
    page.open(f"{own.address}#{NAME}")
    page.ask("document.getElementById('pin').click()")
    turn(page, "own-most", 0)
    page.ask("document.getElementById('seeds').click()")
    page.until("document.getElementById('metrics').textContent.includes('±')")


def test_an_exception_is_shown_and_a_move_ends_code_that_blocks(page: Page) -> None:
    needs_the_page()
    with opened(page, "done", scenario(), queues={LINK: _Fails()}):
        assert "wan.forward: _Fails: ZeroDivisionError: at three" in state(page)
        assert page.ask("document.getElementById('state').classList.contains('wrong')")
        assert page.ask("document.querySelectorAll('#plots .card').length") > 0
    with opened(page, "running", scenario(), queues={LINK: _Blocks()}):
        time.sleep(1)
        assert page.ask("document.body.dataset.state") == "running"
        turn(page, "queue", 1)
        assert page.ask("document.body.dataset.state") == "done"
    with opened(page, "refused", scenario(), queues={LINK: _Dies()}):
        assert "did compiled code crash?" in state(page)


def test_a_query_is_followed_on_this_machine(page: Page) -> None:
    needs_the_page()
    path = Path(__file__).parents[2] / "scenarios" / "dns-behind-fifo.toml"
    short = {"duration": "20 s"}
    queues = {"bottleneck.forward": _Tail(100)}
    with lab.open_page(path, set=short, queues=queues, browser=False) as own:
        page.open(f"{own.address}#dns-behind-fifo")
        page.until("!document.getElementById('queries').hidden")
        page.ask("document.getElementById('queries').open = true")
        page.until("document.querySelector('#queries > ol button') !== null")
        page.ask("document.querySelector('#queries > ol button').click()")
        page.until("document.querySelector('#queries article h3') !== null")
        assert page.ask("document.querySelectorAll('.packet').length") > 0


def test_the_command_runs_a_plugin(tmp_path: Path, page: Page) -> None:
    needs_the_page()
    codel = compiled("codel", tmp_path)
    values = scenario()
    values["links"][0]["queue"] = {"kind": "plugin", "name": "codel-rfc8289", "target": "5 ms"}
    file = tmp_path / f"{NAME}.toml"
    file.write_text(toml_text(values))
    command = [sys.executable, "-m", "narrows", "lab", "--no-open"]
    for words, says in (
        ([file], "nothing here offers it; hint: --plugin FILE"),
        (["--plugin", codel], "no scenario names its parts"),
        ([file, "--plugin", __file__], "test_own_parts.py"),
        ([file, "--plugin", compiled("slope", tmp_path)], "the scenario uses nothing of it"),
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1
    with subprocess.Popen(
        [*command, file, "--plugin", codel], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        page.open(f"{address}#{NAME}")
        assert "by narrows on this machine" in state(page)
        before = goodput(page)
        turn(page, "own-target", 0)
        assert page.ask("document.body.dataset.state") == "done" and goodput(page) != before
        assert f"--plugin {codel}" in page.ask("document.getElementById('made').textContent")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_what_cannot_be_opened_is_a_line() -> None:
    needs_the_page()
    for parts, words in (
        ({"queues": {"nowhere": _Tail()}}, 'there is no link "nowhere"'),
        ({"queues": {5: _Tail()}}, r"queues\[5\]: is not named by text"),
        ({"queues": [_Tail()]}, "queues: is no mapping but list"),
        ({"controls": {"gentle": _Gentle()}}, "no connection uses it"),
    ):
        with pytest.raises(NarrowsError, match=words):
            lab.open_page(scenario(), browser=False, **parts)
