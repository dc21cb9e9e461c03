"""The simulator's backend with a fake engine: what it calls, and what becomes of interrupts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import synthetic_run

from narrows.backends import run
from narrows.backends import sim as backend
from narrows.backends.sim import BackendError, run_sim
from narrows.results import TABLES, Run, RunFolderError


class _FakeScenario:
    name = "fake"
    seed = 7
    traffic = ()
    dns = ()

    def plan(self, seed: int, *, event_limit: int | None = None) -> dict[str, Any]:
        if seed < 0:
            raise ValueError("the seed must be 0 to 18446744073709551615")
        links = [{"name": "a.forward"}, {"name": "a.backward"}]
        return {
            "seed": seed,
            "event_limit": event_limit,
            "links": links,
            "captures": [{"name": "a.backward"}],
        }

    def resolved(self) -> dict[str, Any]:
        return {"name": self.name}


class _FakeEngine:
    """An engine that needs a million events to the end."""

    def __init__(self, plan_json: str) -> None:
        self.plan = json.loads(plan_json)
        self.limit = self.plan["event_limit"] or 1_000_000
        self.events = 0
        self.stopped = "running"

    @property
    def progress(self) -> float:
        return self.events / 1_000_000

    @property
    def now_s(self) -> float:
        return 60.0 * self.progress

    def advance(self, max_events: int) -> bool:
        self.events = min(self.limit, self.events + max_events)
        if self.events == self.limit:
            self.stopped = "end" if self.limit == 1_000_000 else "event-limit"
        return self.stopped != "running"

    def interrupt(self) -> None:
        self.stopped = "interrupted"

    def tables(self, *, coded: bool = False) -> dict[str, dict[str, Any]]:
        made = synthetic_run(duration_s=60.0, workers=2).tables
        return {
            name: {
                column: frame.get_column(column).to_list()
                if str(frame.schema[column]) == "String"
                else frame.get_column(column).to_numpy()
                for column in frame.columns
                if column != "fates"
            }
            for name, frame in made.items()
        }

    def capture(self, number: int) -> bytes:
        return b"capture %d" % number


def simulate(**options: Any) -> Run:
    return run_sim(_FakeScenario(), engine=_FakeEngine, **options)  # type: ignore[arg-type]


def test_a_run_has_the_engines_tables_and_facts() -> None:
    seen: list[float] = []
    result = simulate(progress=seen.append)
    expected = synthetic_run(duration_s=60.0, workers=2)
    for name in TABLES:
        assert result.tables[name].equals(expected.tables[name]), name
    assert (result.status, result.stopped, result.seed) == ("complete", "end", 7)
    assert (result.events, result.end_s) == (1_000_000, 60.0)
    assert result.scenario == {"name": "fake"}
    assert result.capture("a.backward") == b"capture 0"
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert result.host["machine"]
    assert result.wall["simulation_s"] >= 0.0


def test_a_seed_replaces_the_scenarios() -> None:
    assert simulate(seed=9).seed == 9


def test_an_event_limit_makes_a_partial_run() -> None:
    result = simulate(event_limit=1234)
    assert (result.status, result.stopped, result.events) == ("partial", "event-limit", 1234)


def test_an_interrupt_makes_a_partial_run() -> None:
    def interrupt(done: float) -> None:
        raise KeyboardInterrupt

    result = simulate(progress=interrupt)
    assert (result.status, result.stopped) == ("partial", "interrupted")
    assert 0 < result.events < 1_000_000
    assert result.queues.height > 0


def test_another_exception_of_progress_is_passed_on() -> None:
    class Stop(Exception):  # noqa: N818 - no error
        pass

    def stop(done: float) -> None:
        raise Stop

    with pytest.raises(Stop):
        simulate(progress=stop)


def test_what_the_engine_refuses_is_one_line() -> None:
    with pytest.raises(BackendError, match="fake: the seed must be"):
        simulate(seed=-1)


@pytest.fixture
def run_fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    monkeypatch.setattr(backend._core, "Simulation", _FakeEngine, raising=False)
    return lambda **options: run(_FakeScenario(), **options)  # type: ignore[arg-type]


def test_an_interrupted_run_is_saved(run_fake: Callable[..., Run], tmp_path: Path) -> None:
    def interrupt(done: float) -> None:
        raise KeyboardInterrupt

    result = run_fake(out=tmp_path / "a", progress=interrupt)
    loaded = Run.load(tmp_path / "a")
    assert loaded.status == result.status == "partial"
    assert result.folder == tmp_path / "a"


def test_a_taken_folder_is_refused_before_the_run(
    run_fake: Callable[..., Run], tmp_path: Path
) -> None:
    run_fake(out=tmp_path / "a")
    seen: list[float] = []
    with pytest.raises(RunFolderError, match="already holds a run"):
        run_fake(out=tmp_path / "a", progress=seen.append)
    assert seen == []


def test_equal_runs_give_equal_folders(run_fake: Callable[..., Run], tmp_path: Path) -> None:
    run_fake(out=tmp_path / "a")
    run_fake(out=tmp_path / "b")
    for table in TABLES.values():
        a, b = (tmp_path / side / table.file_name for side in "ab")
        assert a.read_bytes() == b.read_bytes()
    a, b = (json.loads((tmp_path / side / "run.json").read_text()) for side in "ab")
    for facts in (a, b):
        del facts["wall"], facts["host"]
    assert a == b


def test_an_unknown_backend_is_one_line(run_fake: Callable[..., Run]) -> None:
    with pytest.raises(BackendError, match="backend: 'ns-2' is not known; hint: one of kernel"):
        run_fake(backend="ns-2")
