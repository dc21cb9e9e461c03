"""RFC 7928's suite: what its numbers must be, its page, its queues from outside, bad input."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from narrows.cli.app import main
from narrows.queues import DROP, PASS, Queue
from narrows.suites import SuiteError, SuiteRun, rfc7928
from narrows.suites.contenders import BDP_PACKETS, contenders
from narrows.suites.measuring import jain
from narrows.suites.output import write
from narrows.suites.parts import Column
from narrows.suites.rfc7928 import pictures
from narrows.suites.rfc7928.parts import METRICS, PARTS, suite
from narrows.suites.rfc7928.scenes import LEVELS, connections, scenes
from narrows.suites.seen import cell, ellipse, findings

EXAMPLES = Path(__file__).parents[2] / "crates" / "plugin" / "examples"


class Short(Queue):
    """Drops what finds `most` packets waiting."""

    def __init__(self, most: int) -> None:
        self.most = most

    def admit(self, backlog: int, bytes: int, now: float, packet: object) -> int:
        """Decides about a packet that arrives."""
        return DROP if backlog >= self.most else PASS


@pytest.fixture(scope="module")
def whole() -> SuiteRun:
    """All scenes, shortened, behind Drop Tail, CoDel and FQ-CoDel."""
    return rfc7928(["pfifo", "codel", "fq-codel"], seeds=3, scale=1 / 3, workers=2)


def mean(run: SuiteRun, scene: str, metric: str, queue: str) -> float:
    found = cell(run, Column(scene, metric), queue)
    assert found is not None, (scene, metric, queue)
    return found.mean


def test_every_column_has_a_value_behind_every_queue(whole: SuiteRun) -> None:
    assert whole.status == "complete"
    assert whole.runs.height == 3 * 3 * len(scenes())
    for part in whole.suite.parts:
        for column in part.columns:
            for queue in whole.names:
                assert math.isfinite(mean(whole, column.scene, column.metric, queue))
        assert len(findings(whole, part)) == len(part.telling)


def test_drop_tail_keeps_its_buffer_full_and_codel_does_not(whole: SuiteRun) -> None:
    for scene in ("8.2.2", "8.2.3", "8.2.4"):
        full = BDP_PACKETS * 1500 * 8 / 10e6 * 1e3
        assert 0.4 * full < mean(whole, scene, "delay_mean", "pfifo") < full
        assert mean(whole, scene, "delay_mean", "codel") < 15.0
        found = cell(whole, Column(scene, "delay_mean"), "codel")
        assert found is not None and found.differs and found.apart is not None
        assert found.apart[1] < 0.0
        assert mean(whole, scene, "goodput", "pfifo") > mean(whole, scene, "goodput", "codel")


def test_the_levels_have_the_losses_that_define_them() -> None:
    # Without a queue's own policy, Drop Tail loses what the level says: its delay doubles the round
    # trip, and its synchronised losses more than make up for that.
    run = rfc7928(["pfifo"], seeds=3, sections=["8.2"], workers=2)
    for scene, loss in zip(("8.2.2", "8.2.3", "8.2.4"), LEVELS.values(), strict=True):
        assert mean(run, scene, "loss_percent", "pfifo") == pytest.approx(100.0 * loss, rel=0.35)


def test_goodput_is_what_the_line_carries_of_payload(whole: SuiteRun) -> None:
    # 1448 of 1500 bytes are payload.
    assert mean(whole, "8.2.4", "goodput", "pfifo") == pytest.approx(10.0 * 1448 / 1500, rel=0.005)
    assert mean(whole, "8.2.4", "utilisation_percent", "pfifo") > 99.9
    received = mean(whole, "5.3-alone", "received", "pfifo")
    assert received == pytest.approx(10.0, rel=0.03)
    # 12 Mbit/s into 10 lose a sixth, whatever the queue.
    for queue in whole.names:
        assert mean(whole, "5.3-alone", "loss_percent", queue) == pytest.approx(16.7, abs=1.5)


def test_fair_queueing_shares_what_a_fifo_does_not(whole: SuiteRun) -> None:
    for scene in ("6-5", "6-560"):
        fair, not_fair = (mean(whole, scene, "jain", queue) for queue in ("fq-codel", "pfifo"))
        assert fair > not_fair + 0.05
    assert mean(whole, "5.2", "share_percent", "pfifo") > 75.0
    assert mean(whole, "5.2", "share_percent", "fq-codel") < 65.0


def test_a_slower_line_takes_longer_to_empty_a_long_queue(whole: SuiteRun) -> None:
    ten_times = mean(whole, "8.2.6-slow", "delay_slow", "pfifo")
    assert ten_times > 5.0 * mean(whole, "8.2.6-slow", "delay_before", "pfifo")
    assert mean(whole, "8.2.6-slow", "delay_slow", "codel") < 0.2 * ten_times


def test_more_initial_window_takes_less_time(whole: SuiteRun) -> None:
    for queue in whole.names:
        quick, slow = (mean(whole, "5.1.2", f"fct_{name}", queue) for name in ("iw10", "iw3"))
        assert quick < slow
    # 100 kB in rounds of 100 ms: the handshake, and windows of 3, 6, 12, 24, 48 or 10, 20, 40.
    assert mean(whole, "5.1.2", "fct_iw3", "fq-codel") == pytest.approx(0.65, abs=0.12)
    assert mean(whole, "5.1.2", "fct_iw10", "fq-codel") == pytest.approx(0.47, abs=0.12)


def test_two_queues_in_a_row_halve_nothing_by_themselves(whole: SuiteRun) -> None:
    rates = {name: mean(whole, "10", f"goodput_{name}", "fq-codel") for name in ("whole", "first")}
    assert rates["whole"] + rates["first"] < 10.0
    assert mean(whole, "10", "delay_mean_second", "pfifo") > 20.0


def test_known_samples_have_known_ellipses_and_indices() -> None:
    generator = np.random.default_rng(7)
    turn = math.radians(30.0)
    along, across = 3.0 * generator.standard_normal(40_000), generator.standard_normal(40_000)
    xs = 10.0 + along * math.cos(turn) - across * math.sin(turn)
    ys = 5.0 + along * math.sin(turn) + across * math.cos(turn)
    found = ellipse(xs.tolist(), ys.tolist())
    assert (found.x, found.y) == (pytest.approx(10.0, abs=0.1), pytest.approx(5.0, abs=0.1))
    assert found.major == pytest.approx(3.0, rel=0.02)
    assert found.minor == pytest.approx(1.0, rel=0.02)
    assert found.angle == pytest.approx(30.0, abs=1.0)
    assert ellipse([2.0, 2.0], [1.0, 1.0]).major == 0.0
    assert jain([3.0, 1.0]) == pytest.approx(0.8)
    assert jain([0.0, 0.0]) is None
    assert [connections(loss) for loss in LEVELS.values()] == [3, 7, 10]


def test_all_metrics_are_declared(whole: SuiteRun) -> None:
    assert {*whole.runs.columns} - {"scene", "queue", "seed"} <= METRICS.keys()
    shown = {column.metric for part in PARTS for column in part.columns}
    assert shown <= METRICS.keys()


def test_sections_choose_scenes() -> None:
    numbers = [part.number for part in suite(1.0, ("8.2",)).parts]
    assert numbers == ["8.2.2", "8.2.3", "8.2.4", "8.2.5", "8.2.6"]
    # 1 is not a beginning of 10 or 11.
    with pytest.raises(SuiteError, match=r"section 1: is not run; hint: one of 5\.1\.1, "):
        rfc7928(["pfifo"], sections=["1"])


@pytest.mark.slow
def test_the_page_says_what_was_asked_run_and_seen(whole: SuiteRun, tmp_path: Path) -> None:
    write(whole, tmp_path, ("svg",), pictures(whole))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for part in PARTS:
        assert f'id="s{part.number}"' in page
    assert page.count("<b>Asked.</b>") == len(PARTS) + bool(whole.costs)
    assert "LEDBAT" in page and "Delay, mean: from" in page
    for name in ("5.1.1-trade-off", "8.2.4-trade-off", "8.2.6-slow-over-time"):
        assert (tmp_path / "plots" / f"{name}.svg").stat().st_size > 1000
    document = json.loads((tmp_path / "suite.json").read_text(encoding="utf-8"))
    assert document["queues"]["pfifo"] == f"kind = pfifo, limit = {BDP_PACKETS}"
    assert len(document["runs"]) == whole.runs.height


def test_costs_tell_a_simple_queue_from_a_complicated_one(whole: SuiteRun) -> None:
    assert whole.costs is not None
    assert whole.costs["fq-codel"] > whole.costs["pfifo"] + 10.0


def test_queues_from_outside_take_part() -> None:
    queues = {"tail": {"kind": "pfifo", "limit": 20}, "mine": Short(20)}
    run = rfc7928(queues, seeds=2, scale=0.2, sections=["8.2.4", "9.2", "10"], workers=1)
    assert run.status == "complete" and run.names == ["tail", "mine"]
    for scene, metric in (("8.2.4", "delay_mean"), ("9.2", "delay_mean_back")):
        # The class is a FIFO of the same length: the same runs, packet by packet.
        assert run.values(scene, metric, "mine") == run.values(scene, metric, "tail")
    # Both queues of the path are the class: the second drops, too.
    assert all(run.values("10", "loss_second_percent", "mine").values())


class Raises(Queue):
    """Fails at its hundredth packet."""

    def __init__(self) -> None:
        self.count = 0

    def admit(self, backlog: int, bytes: int, now: float, packet: object) -> int:
        """Decides about a packet that arrives."""
        self.count += 1
        return 1 // max(0, 100 - self.count) * 0


def test_a_queue_that_raises_fails_its_runs_alone(tmp_path: Path) -> None:
    queues = {"pfifo": "pfifo", "bad": Raises()}
    run = rfc7928(queues, seeds=2, scale=0.1, sections=["8.2.2"], workers=1)
    assert run.status == "failed" and len(run.failures) == 2
    assert run.failures[0].startswith("8.2.2 bad, seed 1: ")
    assert run.values("8.2.2", "goodput", "pfifo").keys() == {1, 2}
    write(run, tmp_path, (), pictures(run))
    assert "8.2.2 bad, seed 1" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["pfio"], 'queue pfio: is no kind of queue; hint: did you mean "pfifo" or "prio"?'),
        (["codel", "codel"], "codel: names two queues; hint: give one of them another name"),
        (["codel:target=x"], "queue codel target x: target: "),
        (["codel:taget=1 ms"], "queue codel taget 1 ms: taget: "),
        (["x={kind="], "queue x={kind=: is in no form that is known; hint: such as codel"),
        ([""], "queue : is in no form that is known"),
        (["prio"], "queue prio: bands: "),
        (["plugin:name=mine"], "queue plugin name mine: needs its plugin"),
    ],
)
def test_bad_queues_are_one_line(
    given: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = given
    against = [word for other in others for word in ("--against", other)]
    command = ["suite", "rfc7928", "--queue", first, *against, "--out", str(tmp_path / "new")]
    assert main(command) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert said in shown.err
    assert not (tmp_path / "new").exists()


def test_a_folder_of_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    assert main(["suite", "rfc7928", "--queue", "pfifo", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("suite.json", '{"mine": 1}', "suite.json: is not that of a suite"),
        ("suite.json", "[" * 100_000, "suite.json: is not that of a suite"),
        ("suite.json", '{"suite": "rrul", "runs": []}', "holds the suite rrul"),
        (
            "suite.json",
            '{"suite": "rfc7928", "runs": [{"scene": "8.2.2", "queue": "mine", "seed": 1}]}',
            "also has 8.2.2 with mine and seed 1; hint: run that too (a suite may grow), or",
        ),
        ("runs/", "", "holds other files"),
    ],
)
def test_results_that_the_suite_would_not_have_stay(
    name: str, data: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if data:
        (tmp_path / name).write_text(data)
    else:
        (tmp_path / name).mkdir()
    (tmp_path / "report.html").write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    command = ["suite", "rfc7928", "--queue", "pfifo", "--section", "8.2.2", "--seeds", "1"]
    assert main([*command, "--out", str(tmp_path)]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and said in shown
    assert (tmp_path / "report.html").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_class_is_no_queue() -> None:
    with pytest.raises(SuiteError, match=r"hint: make one: Short\(\)"):
        rfc7928({"mine": Short})  # type: ignore[dict-item]
    with pytest.raises(SuiteError, match="names no queue"):
        rfc7928([])


def test_names_fit_sweeps() -> None:
    long = "codel:target=1 ms,interval=20 ms,limit=1000"
    (found,) = contenders([long])
    assert found.name == "codel target 1 ms interval"
    assert found.queue["limit"] == 1000


@pytest.mark.slow
def test_the_command_continues_with_more_queues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "suite"
    command = ["suite", "rfc7928", "--queue", "pfifo", "--quick", "--section", "8.2.2"]
    command += ["--out", str(folder), "--seeds", "2", "--workers", "1"]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert "8.2.2 Mild congestion" in first and "5.1.1" not in first
    lines = (folder / "runs" / "rows.jsonl").read_text(encoding="utf-8").count("\n")
    assert lines == 2
    assert main([*command, "--against", "codel", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["queue"] for row in document["runs"]} == {"pfifo", "codel"}
    assert (folder / "runs" / "rows.jsonl").read_text(encoding="utf-8").count("\n") == 4


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_plugin_takes_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from narrows.queues import INCLUDE

    library = tmp_path / "codel.so"
    source = EXAMPLES / "codel.c"
    build = ["cc", "-shared", "-fPIC", f"-I{INCLUDE}", str(source), "-lm", "-o", str(library)]
    subprocess.run(build, check=True)
    name = "codel-rfc8289"
    command = ["suite", "rfc7928", "--queue", f"plugin:name={name}", "--plugin", str(library)]
    command += ["--section", "8.2.2", "--quick", "--seeds", "2", "--out", str(tmp_path / "s")]
    assert main(command) == 0
    assert f"plugin name {name}" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "suite"
    command = [sys.executable, "-m", "narrows", "suite", "rfc7928", "--queue", "codel", "--seeds"]
    command += ["500", "--section", "8.2.2", "--out", str(folder), "--workers", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    rows = folder / "runs" / "rows.jsonl"
    until = time.monotonic() + 60.0
    while time.monotonic() < until and not (rows.exists() and rows.read_bytes().count(b"\n") > 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60.0)
    assert process.returncode == 130
    assert "the same command continues" in said
    assert json.loads((folder / "suite.json").read_text(encoding="utf-8"))["status"] == "partial"
