"""What `narrows lab` computes for its page: run folders, sweeps and kernel runs (lab/jobs.py)."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pytest

import narrows
from narrows.backends import parts_from_outside
from narrows.lab import jobs
from narrows.lab.chosen import Chosen, spread
from narrows.lab.knobs import knobs, watched
from narrows.lab.patches import Patches, apart
from narrows.lab.server import Server
from narrows.queues import PASS, Packet, Queue
from narrows.report import plot_sweep
from narrows.scenario import Scenario, examples
from narrows.sweeps.conduct import all_axes, base_values
from narrows.sweeps.plan import combined, make_plan

from . import pretended

SHORT = "dns-over-tls"
PATHS = {each.name: each.path for each in examples()}


@contextmanager
def served(scenario: Path | Scenario | None = None, **parts: Any) -> Iterator[Server]:
    with Server({}, parts=parts_from_outside(**parts), scenario=scenario) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def request(server: Server, job: Any, **headers: str) -> Request:
    origin = server.address.partition(f"/{server.secret}")[0]
    all_headers = {"Origin": origin, "Content-Type": "application/json", **headers}
    body = job if isinstance(job, bytes) else json.dumps(job).encode()
    return Request(f"{server.address}job", data=body, headers=all_headers)


def messages(server: Server, job: Any) -> Iterator[tuple[dict[str, Any], bytes]]:
    with urlopen(request(server, job), timeout=120) as answer:
        while line := answer.readline():
            facts = json.loads(line)
            yield facts, answer.read(facts["bytes"])


def last(server: Server, kind: str, name: str = SHORT, **more: Any) -> tuple[dict[str, Any], bytes]:
    job = {"job": kind, "example": name, "settings": {}, **more}
    return list(messages(server, job))[-1]


def refused(asked: Request) -> tuple[int, str]:
    with pytest.raises(HTTPError) as error:
        urlopen(asked, timeout=60)
    with error.value:
        return error.value.code, str(error.value.reason)


def processes() -> dict[int, tuple[int, bytes]]:
    """The parent and the command of each process; those that have ended have no command."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            found[int(folder.name)] = int(parent), (folder / "cmdline").read_bytes()
    return {number: facts for number, facts in found.items() if facts[1]}


def at_work(mark: str, *, workers: bool = False) -> set[int]:
    """The processes of a test's job, once there are some, and its workers, if it has any."""
    end = time.monotonic() + 60
    while True:
        there = processes()
        job = {number for number, (_, command) in there.items() if mark.encode() in command}
        children = {number for number, (parent, _) in there.items() if parent in job}
        if children or (job and not workers):
            return job | children
        assert time.monotonic() < end, "no job, or no worker"
        time.sleep(0.05)


def gone(numbers: set[int]) -> bool:
    end = time.monotonic() + 60
    while numbers & processes().keys():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """A word in the commands of this test's jobs, and in no other."""
    word = f"job_of_{os.getpid()}_{time.monotonic_ns()}"
    monkeypatch.setattr(jobs, "_START", f"{jobs._START} # {word}")
    return word


def test_a_run_folder_is_that_of_narrows_run(tmp_path: Path) -> None:
    """It has the same tables, and narrows' commands take it once it is unpacked."""
    settings = {"delay": "50 ms", "seed": "2"}
    with served() as server:
        facts, content = last(server, "folder", settings=settings)
    assert (facts["state"], facts["why"], facts["name"]) == ("done", "", f"{SHORT}-2")
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    theirs = narrows.Run.load(tmp_path / f"{SHORT}-2")
    changes = {**Chosen(Scenario.load(PATHS[SHORT]), settings).changes}
    assert theirs.set == changes and len(changes) == 2
    ours = narrows.run(watched(Scenario.load(PATHS[SHORT])), set=changes, out=tmp_path / "ours")
    assert theirs.summary == ours.summary
    for name, table in ours.tables.items():
        assert theirs.tables[name].equals(table), name
        if table.height:
            assert (tmp_path / f"{SHORT}-2/{name}.parquet").read_bytes() == (
                tmp_path / f"ours/{name}.parquet"
            ).read_bytes()


@pytest.mark.slow
def test_narrows_commands_take_the_run_folder(tmp_path: Path) -> None:
    with served() as server:
        for seed in ("1", "2"):
            content = last(server, "folder", settings={"seed": seed} if seed != "1" else {})[1]
            zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    one, two = f"{SHORT}-1", f"{SHORT}-2"
    for words in (("report", one), ("plot", one, "--plots", "svg"), ("compare", one, two)):
        command = [sys.executable, "-m", "narrows", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / one / "report.html").is_file()


def test_a_sweep_grows_and_is_that_of_narrows_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    # Or a fast machine may be done before there is anything to say.
    monkeypatch.setattr(
        jobs, "_START", jobs._START.replace("main()", "main.__globals__.update(_OFTEN_S=0); main()")
    )
    job = {"job": "sweep", "example": SHORT, "settings": {"delay": "32 ms"}, "knob": "rate"}
    with served() as server:
        found = [facts for facts, _ in messages(server, {**job, "seeds": 2})]
    grown = [len(facts["plots"]) for facts in found if "plots" in facts]
    assert len(grown) >= 2 and found[-1]["state"] == "done" and found[-1]["words"] == "18 runs"
    base = watched(Scenario.load(PATHS[SHORT]))
    (rate,) = [knob for knob in knobs(base) if knob.name == "rate"]
    assert len(rate.settings) == 11
    (key,) = rate.settings[0].changes
    texts = [rate.settings[at].text for at in (0, 1, 2, 4, 5, 6, 8, 9, 10)]
    chosen = Chosen(Scenario.load(PATHS[SHORT]), {"delay": "32 ms"})
    ours = narrows.sweep(chosen.base, set=chosen.changes, vary={key: texts}, seeds=2)
    for plot in found[-1]["plots"]:
        drawing = plot_sweep(ours, plot["key"], key).shown.drawing.document()
        assert plot["drawing"] == json.loads(json.dumps(drawing)), plot["key"]
        # What never changes is not in the list.
        assert len({value for each in drawing["curves"][0]["values"] for value in each}) > 1


def test_a_sweep_over_a_choice_has_its_names() -> None:
    with served() as server:
        facts, _ = last(server, "sweep", "dns-behind-red", knob="queue", seeds=1,
                        settings={"ecn": "100 %", "red-ecn": "marks ECN packets"})  # fmt: skip
    drawing = facts["plots"][0]["drawing"]
    assert [name for _, name in drawing["x"]["ticks"]][:3] == ["red", "pfifo", "bfifo"]
    assert drawing["x"]["label"] == "Queue"


@pytest.mark.parametrize("name", ["dns-behind-red", "l4s-coexistence", "sqm"])
def test_each_value_of_a_sweep_is_the_setting_of_its_knob(name: str) -> None:
    """No run is needed: the plans are those that the page would run."""
    scenario = Scenario.load(PATHS[name])
    patches = Patches(watched(scenario), PATHS[name].parent)
    tried = 0
    for number, knob in enumerate(patches.knobs):
        if knob.name == "seed" or not patches.active(number, patches.own):
            continue
        common, varied, label = Chosen(scenario, {}).varied(knob.name)
        assert label == knob.label
        axes = all_axes(varied.get("vary", {}), varied.get("variants", {}))
        base, file, written = base_values(watched(scenario), common)
        made = make_plan(base, file, axes, (1,), written=written)
        assert len(made.digests) == min(9, len(knob.settings))
        for place, at in enumerate(spread(len(knob.settings))):
            settings = list(patches.own)
            settings[number] = at
            swept = combined(base, axes, (place,), file, written)
            assert apart(swept.plan()) == patches.lower(settings)["plan"], (knob.name, place)
            tried += 1
    assert tried > 30


def test_a_page_that_is_gone_ends_its_sweep(mark: str) -> None:
    job = {"job": "sweep", "example": "parking-lot", "settings": {}, "knob": "delay", "seeds": 10}
    with served() as server:
        with urlopen(request(server, job), timeout=60) as answer:
            assert json.loads(answer.readline())["state"] == "running"
            begun = at_work(mark, workers=True)
        assert gone(begun)


def test_the_end_of_the_server_ends_its_jobs(mark: str) -> None:
    job = {"job": "sweep", "example": "parking-lot", "settings": {}, "knob": "delay", "seeds": 10}
    with served() as server:
        answer = urlopen(request(server, job), timeout=60)
        assert json.loads(answer.readline())["state"] == "running"
        begun = at_work(mark, workers=True)
    assert gone(begun)
    answer.close()


def test_a_job_that_waits_for_its_turn_does_not_outlive_the_server() -> None:
    job = {"job": "folder", "example": SHORT, "settings": {}}
    with served() as server, ThreadPoolExecutor() as other:
        with server.jobs._turns["folder"]:
            waiting = other.submit(refused, request(server, job))
            while server.runs._value == server.runs._initial_value:  # type: ignore[attr-defined]
                time.sleep(0.01)
            server.jobs.close()
        assert waiting.result() == (503, "the end of the server is under way")


def test_a_job_whose_page_is_gone_waits_for_no_turn() -> None:
    """It leaves its place among the runs of the server while the job before it still goes on."""
    job = json.dumps({"job": "folder", "example": SHORT, "settings": {}})
    with served() as server, server.jobs._turns["folder"]:
        places = server.runs._initial_value  # type: ignore[attr-defined]
        asked = request(server, job.encode())
        page = HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
        page.request("POST", urlsplit(asked.full_url).path, asked.data, dict(asked.header_items()))
        until(lambda: server.runs._value == places - 1)
        time.sleep(3 * jobs._LOOK_S)
        assert server.runs._value == places - 1, "a page that is there keeps its place"
        page.close()
        until(lambda: server.runs._value == places)


def until(holds: Callable[[], bool]) -> None:
    """Waits until something holds, for less than a job waits for its turn."""
    end = time.monotonic() + jobs._TURN_S / 2
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_job_that_cannot_start_leaves_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    with served() as server:
        for _ in range(2):
            facts, _ = last(server, "folder")
            assert facts["why"] == "the job cannot start: No such file or directory"
        assert not server.jobs._under_way


def test_one_sweep_or_kernel_run_at_a_time(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_TURN_S", 0.1)
    monkeypatch.setattr(jobs, "_START", f"{pretended.start(slowly=True)} # {mark}")
    with served() as server:
        job = {"job": "kernel", "example": SHORT, "settings": {}}
        with urlopen(request(server, job), timeout=60) as answer:
            while json.loads(answer.readline())["progress"] != 0.5:
                pass
            for kind in ({"job": "kernel"}, {"job": "sweep", "knob": "delay", "seeds": 1}):
                code, why = refused(request(server, {**job, **kind}))
                assert (code, why) == (503, "another sweep or kernel run is under way")
            begun = at_work(mark)
        # Cancelled: it ends as by Ctrl-C.
        assert gone(begun)


def test_tables_arrive_as_those_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_START", pretended.start())
    with served() as server:
        facts, content = last(server, "kernel", "dns-behind-red")
    assert (facts["kernel"], facts["flags"], facts["why"]) == (pretended.NAME, [pretended.FLAG], "")
    ours = narrows.run(watched(Scenario.load(PATHS["dns-behind-red"])), set={"seed": 2})
    end = content.index(b"\n") + 1
    heads = json.loads(content[:end])["tables"]
    assert [head["name"] for head in heads] == [
        *("queries", "attempts", "queues", "links", "flow_states", "goodput")
    ]
    for head in heads:
        for column in head["columns"]:
            data, end = content[end : end + column["bytes"]], end + column["bytes"]
            series = ours.table(head["name"])[column["name"]]
            if column["type"] == "string":
                assert json.loads(data) == series.fill_null("").to_list()
            elif column["type"] == "bool":
                assert [*data] == series.cast(int).to_list()
            elif column["name"] == pretended.UNKNOWN:
                assert np.isnan(np.frombuffer(data)).all() and len(data) == 8 * len(series)
            else:
                np.testing.assert_array_equal(np.frombuffer(data), series.cast(float).to_numpy())
    assert end == len(content)


@pytest.mark.parametrize(
    ("kind", "name", "more"),
    [
        ("folder", "endless", {}),
        ("sweep", "endless", {"knob": "delay", "seeds": 1}),
        ("sweep", "parking-lot", {"knob": "delay", "seeds": 10}),
    ],
)
def test_a_job_that_has_had_its_time_says_so(
    kind: str, name: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the run or the sweep keeps what it has, or nothing has ended yet."""
    short = f"work._MOST_S['{kind}'] = 6; work._MOST_EVENTS = 10**12; work.main()"
    start = jobs._START.partition("from narrows")[0]
    monkeypatch.setattr(jobs, "_START", f"{start}from narrows.lab import work; {short}")
    endless = Scenario.load(PATHS["parking-lot"]).with_({"name": "endless", "duration": "9999 s"})
    with served(endless) as server:
        facts, content = last(server, kind, name, **more)
    assert facts["why"].endswith("stopped after 6 s"), facts
    if kind == "folder":
        assert facts["state"] == "done" and content.startswith(b"PK")


class _Pass(Queue):
    def admit(self, _backlog: int, _bytes: int, _now: float, _packet: Packet) -> int:
        return PASS


def test_what_cannot_be_done_takes_a_line() -> None:
    scenario = Scenario.load(PATHS["downloads"])
    link = watched(scenario).monitor.queues
    assert link is not None
    with served(scenario, queues={link.links[0]: _Pass()}) as server:
        for job, says in (
            ({"job": "sweep", "knob": "delay", "seeds": 99}, "99 seeds: a sweep of the page has"),
            ({"job": "sweep", "knob": "seed", "seeds": 1}, "no knob or setting seed; hint: load"),
            ({"job": "sweep", "knob": "nothing", "seeds": 1}, "no knob or setting nothing"),
            ({"job": "folder", "settings": {"rate": "1e99"}}, "no knob or setting rate = 1e99"),
            ({"job": "shutdown"}, "the request is no job: KeyError"),
            ({"job": "folder", "example": "../../etc/passwd"}, "the request is no job: KeyError"),
            ({"job": "folder", "settings": 3}, "the request is no job: AttributeError"),
            (
                {"job": "sweep", "knob": "delay", "seeds": float("inf")},
                "the request is no job: OverflowError",
            ),
            ({"job": "folder", "example": "downloads"}, "classes of your own run in the page's"),
        ):
            facts, _ = last(
                server,
                **{
                    "kind": job.pop("job"),
                    **({"name": job.pop("example")} if "example" in job else {}),
                    **job,
                },
            )
            assert facts["state"] == "refused" and says in facts["why"], facts
            assert "\n" not in facts["why"]
        for wrong, says in (
            (b"[" * jobs.MOST_BYTES, "the request is no job: RecursionError"),
            ({"job": "x" * 9_999, "example": SHORT, "settings": {}}, "the request is no job: KeyE"),
        ):
            ((facts, _),) = messages(server, wrong)
            assert facts["why"].startswith(says) and len(facts["why"]) < 200, facts


def test_only_a_page_of_this_server_may_ask_and_only_for_little() -> None:
    job = {"job": "folder", "example": SHORT, "settings": {}}
    with served() as server:
        for headers, body, code in (
            ({"Origin": "http://evil.example"}, job, 403),
            ({"Host": "evil.example"}, job, 404),
            ({"Content-Type": "text/plain"}, job, 415),
            ({}, b" " * (jobs.MOST_BYTES + 1), 413),
        ):
            assert refused(request(server, body, **headers))[0] == code
        assert refused(Request(f"{server.address}job"))[0] == 404


def test_a_scenario_of_the_users_may_be_a_file_or_an_object(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(PATHS[SHORT].read_text())
    changed = Scenario.load(mine).with_({"name": "changed", "duration": "2 s"})
    for scenario, name in ((mine, "mine"), (changed, "changed")):
        with served(scenario) as server:
            facts, content = last(server, "folder", name)
        assert facts["state"] == "done", facts
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
        assert f"{facts['name']}/run.json" in names
