"""The gateway bench in several sittings: what each measures, keeps and refuses, without root.

Beds are not real here: they give made-up times, and some end the process, as a kill does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.benchmarks import bench_gateway, plan, sitting
from gateway.benchmarks.beds import Arm
from gateway.benchmarks.journal import Journal, Sitting
from gateway.benchmarks.lab import LabError
from gateway.benchmarks.load import Programs
from narrows import run
from narrows.reproduce.hayes_2010.measure import source
from narrows.results import RunFolderError
from narrows.results.gateway_bench import JOURNAL, GatewayBench

ARMS = [
    Arm(server, transport)
    for server in ("bind", "nsd")
    for transport in ("udp", "tcp", "gateway", "gateway-fin")
]
FORM = replace(plan.QUICK, rounds=2, rates=(100.0, 500.0))
FACTS = {"form": "quick", "rounds": 2, "rates": FORM.rates, "kernel": "6.18", "processor": "p"}

PLANNED = [
    (interval.arm.server, interval.arm.transport, interval.rate, interval.round)
    for part in plan.parts(FORM, ARMS)
    for interval in plan.intervals(part, bench_gateway.SEED)
]
"""All intervals of the form, in the plan's order."""


class Killed(BaseException):
    """Stands for SIGKILL: nothing is written after it."""


class Bench:
    """Beds of one process, with a clock that only intervals move."""

    def __init__(self, folder: Path, number: int = 1, takes_s: float = 10.0) -> None:
        self.folder, self.number, self.takes_s = folder, number, takes_s
        self.now_s = 0.0
        self.asked: list[Arm] = []
        self.happens: dict[int, BaseException] = {}
        """What ends or spoils an interval, by its number from 1."""
        self.arms = ARMS
        self.gone: str | None = None

    def ended(self) -> str | None:
        """What ended, as `Bed.ended` says it."""
        return self.gone

    def measure(self, arm: Arm, *_: object, rate: float, **more: Any) -> dict[str, Any]:
        """An interval, as `Bed.measure` gives it."""
        self.asked.append(arm)
        if len(self.asked) in self.happens:
            raise self.happens[len(self.asked)]
        self.now_s += self.takes_s
        # The number of the sitting stands in a column that nothing here computes with.
        counted = {"offered": 100, "answered": 100, "answered_in_time": 100, "unsent": self.number}
        parts = ("kernel", "server", "gateway")
        return {
            "took_s": more["seconds"],
            **{f"{part}_s": 0.001 for part in (*parts, "others", "generator")},
            **{f"{part}_schedstat_s": 0.001 for part in parts},
            **counted,
            "lost": 0,
            "failed": 0,
            "packets": 200,
            "latency_us": {"p50": 100.0, "p90": 150.0, "p99": 200.0, "max": 300.0},
            "histogram_us": [(103.0, 60), (106.1, 40)],
        }

    def sit(self, budget_s: float = float("inf"), form: plan.Form = FORM) -> tuple[str, Journal]:
        """A sitting, to its end."""
        with Journal(self.folder, FACTS) as journal:
            self.now_s = journal.end_s
            now = Sitting("2026-01-01T00:00:00Z", self.now_s, "6.18", "p", 4_194_305)
            journal.begin([str(arm) for arm in self.arms], [], now)
            bed: Any = self
            nothing: Any = None
            clock: Callable[[], float] = lambda: self.now_s  # noqa: E731
            steps = bench_gateway.load(form, [bed], nothing, nothing, clock)
            stopped = sitting.sit(steps, journal, clock, clock() + budget_s)
        return stopped, journal

    def bench(self, stopped: str, journal: Journal) -> GatewayBench:
        """What all sittings have measured."""
        return bench_gateway.bench_of(FORM, ["bind", "nsd"], journal, stopped, self.now_s)


def measured(bench: GatewayBench) -> list[tuple[Any, ...]]:
    """Intervals in the order in which they stand."""
    return bench.intervals.select("server", "transport", "rate_per_s", "round").rows()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "gateway-1"


@pytest.mark.parametrize("at", [1, 2, 9, len(PLANNED) // 2, len(PLANNED) - 1, len(PLANNED)])
@pytest.mark.parametrize("how", [Killed(), KeyboardInterrupt()])
def test_two_sittings_measure_what_one_does(folder: Path, at: int, how: BaseException) -> None:
    first = Bench(folder, 1)
    first.happens = {at: how}
    if isinstance(how, Killed):
        with pytest.raises(Killed):
            first.sit()
    else:
        assert first.sit()[0] == "interrupted"
    second = Bench(folder, 2)
    stopped, journal = second.sit()
    bench = second.bench(stopped, journal)
    # It measures everything once, in the order of a bench without interruptions.
    assert measured(bench) == PLANNED
    assert bench.tables["latencies"].height == 2 * len(PLANNED)
    assert bench.complete
    # It measures only the interrupted round twice.
    longest = max(
        len(turn.intervals)
        for part in plan.parts(FORM, ARMS)
        for turn in plan.rounds(part, bench_gateway.SEED)
    )
    twice = at + len(second.asked) - len(PLANNED)
    assert 0 < twice <= longest


def test_a_round_is_of_one_sitting(folder: Path) -> None:
    number, stopped = 0, ""
    while stopped != "end":
        number += 1
        bench = Bench(folder, number)
        bench.happens = {21: Killed()}
        try:
            stopped, journal = bench.sit()
        except Killed:
            continue
    assert number > 2
    for done in journal.done:
        assert len({row["unsent"] for row in done.rows["intervals"]}) == 1
    found = bench.bench(stopped, journal)
    assert measured(found) == PLANNED
    assert found.sittings == number == len(found.wall["sittings"])
    # Time between sittings does not count, and goes on where the last one kept something.
    starts = found.intervals["started_s"].to_list()
    assert starts == [10.0 * place for place in range(len(PLANNED))]


def test_a_torn_line_is_measured_again(folder: Path) -> None:
    Bench(folder).sit(budget_s=0.0)
    path = folder / JOURNAL
    whole = path.read_bytes()
    Bench(folder).sit(budget_s=0.0)
    longer = path.read_bytes()
    for end in (len(whole) + 1, len(longer) - 1):
        path.write_bytes(longer[:end])
        bench = Bench(folder, 2)
        assert measured(bench.bench(*bench.sit())) == PLANNED


def test_a_journal_that_was_killed_in_its_first_line_begins_anew(folder: Path) -> None:
    folder.mkdir()
    (folder / JOURNAL).write_bytes(b'{"bench":{"form')
    bench = Bench(folder)
    assert measured(bench.bench(*bench.sit())) == PLANNED


def test_a_budget_ends_after_a_whole_round(folder: Path) -> None:
    # The paper's rates as in `make bench-gateway`: intervals of 10 s, and a second around each.
    form = replace(plan.FULL, fast_rounds=0, saturating_rounds=0)
    (part,) = plan.parts(form, ARMS)
    load_s = 10.0 * sum(len(part.arms_at(rate)) for rate in part.rates)
    bench = Bench(folder, takes_s=11.0)
    stopped, journal = bench.sit(budget_s=55 * 60.0, form=form)
    assert stopped == "budget"
    # A round takes 1.1 times its load: as many run as fit into 55 minutes, and not one more.
    fit = int(55 * 60 // (1.1 * load_s))
    assert [done.round for done in journal.done] == list(range(1, fit + 1))
    assert bench.now_s <= 55 * 60
    assert bench.bench(stopped, journal).status == "partial"


def test_each_sitting_gets_further_however_small_its_budget(folder: Path) -> None:
    steps = sum(part.rounds for part in plan.parts(FORM, ARMS))
    for number in range(1, steps + 1):
        bench = Bench(folder, number)
        stopped, journal = bench.sit(budget_s=0.001)
        assert len(journal.done) == number
        assert stopped == ("end" if number == steps else "budget")
    assert measured(bench.bench(stopped, journal)) == PLANNED


def test_what_is_done_once_is_done_once(folder: Path) -> None:
    looks: list[str] = []

    def step(name: str) -> sitting.Step:
        def look(_: object) -> list[str]:
            looks.append(name)
            return [f"{name}: refused"]

        return sitting.Step(name, 1, 0.0, look)

    steps = [step("checks"), step("memory")]
    for until_s in (0.0, float("inf"), float("inf")):
        with Journal(folder, FACTS) as journal:
            journal.begin(["bind udp"], [], Sitting("", journal.end_s, "", "", 4_194_305))
            sitting.sit(steps, journal, lambda: len(looks) + 1.0, until_s)
    assert looks == ["checks", "memory"]
    assert journal.not_measured == ["checks: refused", "memory: refused"]


def test_what_failed_is_said_after_the_last_sitting_too(folder: Path) -> None:
    first = Bench(folder)
    first.happens = {3: LabError("no answer"), 30: Killed()}
    with pytest.raises(Killed):
        first.sit()
    second = Bench(folder, 2)
    bench = second.bench(*second.sit())
    hole = PLANNED[2]
    assert measured(bench) == [row for row in PLANNED if row != hole]
    assert bench.status == "partial"
    assert bench.stopped == f"{hole[0]} {hole[1]} at {hole[2]:g} q/s: no answer"
    assert bench.settings["not_measured"] == [bench.stopped]


def test_a_round_whose_server_ended_is_not_kept(folder: Path) -> None:
    bench = Bench(folder)
    bench.gone = "nsd has ended"
    with pytest.raises(LabError, match=r"nsd has ended; hint: --resume"):
        bench.sit()
    second = Bench(folder, 2)
    assert measured(second.bench(*second.sit())) == PLANNED


def test_the_folder_says_in_how_many_sittings_it_was_measured(folder: Path) -> None:
    for number, budget_s in enumerate((1.0, 1.0, float("inf")), 1):
        bench = Bench(folder, number)
        stopped, journal = bench.sit(budget_s)
        saved = bench.bench(stopped, journal).save(folder, renew=True)
        read = GatewayBench.load(folder)
        assert read.sittings == number
        assert measured(read) == measured(saved) == PLANNED[: saved.intervals.height]
        assert read.complete == (number == 3)
        out_of_time = "it is partial: its budget of time was used up" in source(read, own=True)
        assert out_of_time == (number < 3)
    assert "in 3 sittings" in source(read, own=True)
    kinds = {(one["kernel"], one["processor"]) for one in read.wall["sittings"]}
    assert kinds == {("6.18", "p")}
    assert not list(folder.parent.glob(".*unfinished"))


@pytest.mark.parametrize("name", FACTS)
def test_a_bench_of_other_facts_is_refused(folder: Path, name: str) -> None:
    Bench(folder).sit(budget_s=0.0)
    kept = (folder / JOURNAL).read_bytes()
    with pytest.raises(RunFolderError) as refused:
        Journal(folder, {**FACTS, name: 7.5})
    assert f"holds a bench with {name} " in str(refused.value)
    assert "7.5; hint: " in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (folder / JOURNAL).read_bytes() == kept


def test_what_a_bench_is_of_covers_options_programs_servers_and_machine(tmp_path: Path) -> None:
    programs = [tmp_path / "dnsload", tmp_path / "narrows-gateway"]
    for program in programs:
        program.write_bytes(b"1")

    def facts(form: plan.Form = FORM) -> dict[str, Any]:
        return bench_gateway.facts(form, ["nsd"], Programs(*programs))

    before = facts()
    assert before.keys() >= {"servers", "seed", "narrows", "kernel", "machine", "processor"}
    # Each field of a form counts.
    for name, value in vars(FORM).items():
        other: Any = "other" if isinstance(value, str) else (value, value)
        assert facts(replace(FORM, **{name: other})) != before, name
    for program in programs:
        program.write_bytes(b"2")
        changed = facts()
        assert changed != before
        before = changed


def test_other_arms_are_refused(folder: Path) -> None:
    Bench(folder).sit(budget_s=0.0)
    bench = Bench(folder, 2)
    bench.arms = ARMS[:-1]
    with pytest.raises(RunFolderError, match=r"other arms \(nsd gateway-fin\).*hint: fix"):
        bench.sit()


def test_two_processes_do_not_measure_into_one_folder(folder: Path) -> None:
    Bench(folder).sit(budget_s=0.0)
    with (
        Journal(folder, FACTS),
        pytest.raises(RunFolderError, match="is being filled by another bench"),
    ):
        Journal(folder, FACTS)


@pytest.mark.parametrize(
    "line", [b"[]\n", b"{}\n", b'{"step":{}}\n', b'{"sitting":1}\n', b"\xff\n"]
)
def test_a_damaged_journal_is_refused(folder: Path, line: bytes) -> None:
    Bench(folder).sit(budget_s=0.0)
    path = folder / JOURNAL
    whole = path.read_bytes()
    number = whole.count(b"\n") + 1
    for damaged in (whole + line, line + whole, whole + whole.splitlines(keepends=True)[-1]):
        path.write_bytes(damaged)
        with pytest.raises(RunFolderError, match=rf"is damaged \(line (1|{number})\); hint"):
            Journal(folder, FACTS)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """Folders by what they hold."""
    names = ("nothing", "files", "scenario", "finished", "unfinished", "absent")
    found = {name: tmp_path / name for name in names}
    found["nothing"].mkdir()
    found["files"].mkdir()
    (found["files"] / "notes").write_text("mine")
    scenario = Path(__file__).parents[3] / "scenarios/dns-behind-fifo.toml"
    run(scenario, set={"duration": "20 s"}).save(found["scenario"])
    bench = Bench(found["finished"])
    stopped, journal = bench.sit()
    bench.bench(stopped, journal).save(found["finished"], renew=True)
    (found["finished"] / JOURNAL).unlink()
    Bench(found["unfinished"]).sit(budget_s=0.0)
    return found


def test_only_new_and_unfinished_folders_are_measured_into(places: dict[str, Path]) -> None:
    for resume, name, said in (
        (False, "files", "holds other files"),
        (False, "scenario", "already holds a run"),
        (False, "finished", "already holds a run"),
        (True, "nothing", "is no unfinished bench"),
        (True, "absent", "does not exist"),
        (True, "files", "is no unfinished bench"),
        (True, "scenario", "holds a scenario's run"),
        (True, "finished", "holds a bench that is finished"),
    ):
        with pytest.raises(RunFolderError, match=f"{said}.*; hint: "):
            bench_gateway.chosen_folder(places[name], resume=resume)
    for resume, name in ((False, "absent"), (False, "nothing"), (False, "unfinished")):
        assert bench_gateway.chosen_folder(places[name], resume=resume) == places[name]
    assert bench_gateway.chosen_folder(places["unfinished"], resume=True) == places["unfinished"]


def test_without_a_name_the_latest_unfinished_bench_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunFolderError, match="holds no unfinished bench"):
        bench_gateway.chosen_folder(None, resume=True)
    Bench(Path("runs/gateway-1")).sit(budget_s=0.0)
    assert bench_gateway.chosen_folder(None, resume=True) == Path("runs/gateway-1")
    assert bench_gateway.chosen_folder(None, resume=False) == Path("runs/gateway-2")


def test_a_bench_that_was_killed_before_its_tables_says_how_to_go_on(folder: Path) -> None:
    Bench(folder).sit(budget_s=0.0)
    with pytest.raises(RunFolderError, match=r"hint: resume it: .* RESUME=1 make bench-gateway"):
        GatewayBench.load(folder)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`bench_gateway.py` with these beds in the place of real ones; it returns the exit code."""
    program = tmp_path / "program"
    program.write_bytes(b"a program")
    monkeypatch.setattr(bench_gateway, "require", lambda *_: None)
    monkeypatch.setattr(bench_gateway, "build", lambda: Programs(program, program))
    monkeypatch.setattr(bench_gateway, "run", sit_as_command)
    for name in ("QUICK", "ROUNDS", "INTERVAL", "OUT", "RESUME", "BUDGET", "SERVERS"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["bench_gateway.py", "--quick", *words])
        return int(bench_gateway.main())

    return call


def sit_as_command(
    form: plan.Form, names: list[str], _: Programs, journal: Journal, until: float
) -> tuple[GatewayBench, float]:
    """What `run` does, without a laboratory; a budget of any length is used up by one round."""
    bench: Any = Bench(journal.folder)
    bench.now_s = journal.end_s
    now = Sitting("2026-01-01T00:00:00Z", journal.end_s, "6.18", "p", 4_194_305)
    journal.begin([str(arm) for arm in ARMS], [], now)
    nothing: Any = None
    steps = bench_gateway.load(form, [bench], nothing, nothing, lambda: bench.now_s)
    budget_s = until if until == float("inf") else 0.0
    stopped = sitting.sit(steps, journal, lambda: bench.now_s, bench.now_s + budget_s)
    left_s = sum(step.length_s for step in sitting.left(steps, journal))
    found = bench_gateway.bench_of(form, names, journal, stopped, bench.now_s)
    return found, left_s


def test_the_command_goes_on_until_the_bench_is_whole(
    command: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--out", str(folder), "--rounds", "2")
    assert command(*words, "--budget", "55") == 0
    out, err = capsys.readouterr()
    assert "nsd" in json.loads(out.splitlines()[-1])
    assert f"left; go on with: sudo QUICK=1 ROUNDS=2 BUDGET=55 OUT={folder} make" in err
    assert GatewayBench.load(folder).stopped == "budget"
    assert command(*words, "--resume") == 0
    assert "go on" not in capsys.readouterr().err
    bench = GatewayBench.load(folder)
    assert (bench.status, bench.sittings, measured(bench)) == ("complete", 2, PLANNED)
    assert not (folder / JOURNAL).exists()


@pytest.mark.parametrize("other", ["--rounds 3", "--interval 2", "--servers nsd"])
def test_the_command_refuses_other_options_in_one_line(
    command: Callable[..., int],
    folder: Path,
    other: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("--out", str(folder), "--budget", "55") == 0
    capsys.readouterr()
    assert command("--out", str(folder), *other.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert str(folder) in line
    assert "hint: give the same options" in line
