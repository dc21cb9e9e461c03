"""Everything that runs scenarios takes a backend by name, which refuses what it cannot honour."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from narrows import Run, Scenario, SweepError, run, sweep
from narrows.backends import BACKENDS, Backend, BackendError, Refusal, get
from narrows.backends.sim import run_sim
from narrows.reproduce import reproduce
from narrows.reproduce.harhalakis_2011 import PAPER
from narrows.reproduce.runner import in_own_process, run_one
from narrows.results import RunFolderError, Sweep
from narrows.sweeps.axes import axes_of
from narrows.sweeps.plan import make_plan
from narrows.sweeps.work import Worker, job_of

ASIDE = "aside"
"""The name of a backend for these tests: the simulator, without jitter."""

EXAMPLES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))

VALUES = {
    "name": "small",
    "duration": "1 s",
    "links": [
        {"name": "wan", "between": ["a", "b"], "rate": "2 Mbit/s", "delay": "9 ms"},
        {"name": "lan", "between": ["b", "c"], "rate": "9 Mbit/s", "delay": "1 ms"},
    ],
    "traffic": [{"kind": "bulk", "name": "f", "sender": "a", "receiver": "c"}],
}
JITTER = {"deviation": "1 ms"}


def without_jitter(scenario: Scenario) -> Sequence[Refusal]:
    return [
        Refusal(f"links[{index}].jitter", "it has no netem")
        for index, link in enumerate(scenario.links)
        if link.jitter is not None
    ]


def aside(scenario: Scenario, **options: object) -> Run:
    return replace(run_sim(scenario, **options), backend=ASIDE)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _another_backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("aside_backend")
    module.BACKEND = Backend(ASIDE, aside, without_jitter)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(BACKENDS, ASIDE, module.__name__)  # type: ignore[arg-type]
    yield


def with_jitter(*indices: int) -> dict[str, object]:
    links = [
        {**link, "jitter": JITTER} if index in indices else link
        for index, link in enumerate(VALUES["links"])  # type: ignore[arg-type, var-annotated]
    ]
    return {**VALUES, "links": links}


def test_every_backend_has_its_name_and_the_simulator_refuses_no_example() -> None:
    assert [get(name).name for name in BACKENDS] == list(BACKENDS)
    for path in EXAMPLES:
        assert not get("sim").refusals(Scenario.load(path))


def test_a_run_is_the_chosen_backends() -> None:
    scenario = Scenario.from_dict(VALUES)
    assert run(scenario).backend == "sim"
    assert run(scenario, backend=ASIDE).backend == ASIDE
    with pytest.raises(
        BackendError, match="backend: 'moon' is not known; hint: one of aside, kernel"
    ):
        run(scenario, backend="moon")


def test_a_refusal_names_every_key_before_anything_runs(tmp_path: Path) -> None:
    scenario = Scenario.from_dict(with_jitter(0, 1))
    with pytest.raises(BackendError) as caught:
        run(scenario, backend=ASIDE, out=tmp_path / "run")
    assert [str(error) for error in (caught.value, *caught.value.others)] == [
        f"small: links[{index}].jitter: the backend aside cannot honour it: it has no netem; "
        "hint: leave it out, or change the backend"
        for index in (0, 1)
    ]
    assert not list(tmp_path.iterdir())
    assert run(scenario).complete


def test_many_refusals_are_counted() -> None:
    link = {"rate": "9 Mbit/s", "delay": "1 ms", "jitter": JITTER}
    links = [{**link, "name": f"l{n}", "between": [f"n{n}", "b"]} for n in range(30)]
    many = {"name": "small", "duration": "1 s", "links": links}
    with pytest.raises(BackendError) as caught:
        get(ASIDE).check(Scenario.from_dict(many))
    assert len(caught.value.others) == 20
    assert str(caught.value.others[-1]) == "small: the backend aside cannot honour 10 more keys"


def test_a_sweep_is_the_chosen_backends_and_its_folder_says_so(tmp_path: Path) -> None:
    axes = axes_of({"links.wan.rate": ["1 Mbit/s", "2 Mbit/s"]})
    plan = make_plan(VALUES, "", axes, [1], backend=ASIDE)
    assert plan.digests != make_plan(VALUES, "", axes, [1]).digests
    worker = Worker(job_of(plan, tmp_path))
    (item, _) = plan.items()
    row = worker.row(item)
    assert row["status"] == "complete"
    assert Run.load(tmp_path / row["folder"]).backend == ASIDE
    assert sweep(VALUES, workers=1, out=tmp_path / "sweep").backend == "sim"
    assert Sweep.load(tmp_path / "sweep").backend == "sim"
    with pytest.raises(RunFolderError, match="holds a sweep of the backend sim, but this is of"):
        sweep(VALUES, workers=1, out=tmp_path / "sweep", backend=ASIDE)


def test_a_sweep_checks_every_combination_first(tmp_path: Path) -> None:
    vary = {"links.lan.jitter": [JITTER, {"deviation": "0 s"}]}
    with pytest.raises(BackendError, match=r"links\[1\]\.jitter: .* cannot honour it") as caught:
        sweep(VALUES, vary=vary, out=tmp_path / "sweep", backend=ASIDE)
    assert not caught.value.others
    vary["links.wan.jitter"] = [{"deviation": "0 s"}, {"deviation": "9 ms"}]
    with pytest.raises(BackendError) as caught:
        sweep(VALUES, vary=vary, out=tmp_path / "sweep", backend=ASIDE)
    # Each key is named once, although four combinations have both.
    assert [str(error).split(": ")[1] for error in (caught.value, *caught.value.others)] == [
        "links[0].jitter",
        "links[1].jitter",
    ]
    assert not list(tmp_path.iterdir())
    with pytest.raises(BackendError, match="'moon' is not known"):
        sweep(VALUES, backend="moon")
    with pytest.raises(SweepError, match="must be at least 1"):
        sweep(VALUES, backend=ASIDE, workers=0)


def test_a_reproduction_is_the_chosen_backends() -> None:
    claim = PAPER.claims[0]
    (cell, *_) = PAPER.cells_of([claim])
    small = replace(cell, set={**cell.set, **PAPER.quick, "duration": "45 s"})
    # Its links have jitter, which this backend refuses, so the refusal shows which backend ran.
    with pytest.raises(BackendError, match="the backend aside cannot honour"):
        run_one(PAPER, small, small.set, 1, threading.Event(), backend=ASIDE)
    outcome = reproduce(replace(PAPER, cells=[cell]), claims=[claim], seeds=2, backend=ASIDE)
    assert outcome.backend == ASIDE
    assert not outcome.complete
    assert all("the backend aside cannot honour" in line for line in outcome.failures)
    with pytest.raises(BackendError, match="'moon' is not known"):
        reproduce(PAPER, backend="moon")


def test_a_process_of_its_own_is_told_the_backend() -> None:
    path = PAPER.folder / "scenarios" / "testbed.toml"
    with pytest.raises(RuntimeError, match="'moon' is not known"):
        in_own_process(PAPER, path, {}, 1, threading.Event(), backend="moon")


def test_an_unknown_argument_of_run_is_named_with_what_was_meant() -> None:
    with pytest.raises(TypeError, match=r"no argument seeds; hint: seed=3 for one run, or narrows"):
        run(VALUES, seeds=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match='no argument backnd; hint: did you mean "backend"'):
        run(VALUES, backnd="sim")  # type: ignore[arg-type]
