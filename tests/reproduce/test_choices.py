"""Other choices: which runs they need, what they are compared with, and other definitions."""

import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest

from narrows.reproduce import Cell, Choice, Claim, Measured, Paper, Verdict, Worded, reproduce
from narrows.reproduce.harhalakis_2011 import PAPER as ANY

pytestmark = pytest.mark.slow


def above(bound: float, *cells: str) -> Claim:
    """A claim that the cells' mean of `x` is at least a number."""
    return Claim(
        "Z1",
        f"mean of {', '.join(cells)}",
        "",
        cells,
        lambda runs: sum(run["x"] for run in runs.values()) / len(runs),
        worded=Worded(f"at least {bound}", "at least", bound),
    )


def paper(claims: list[Claim], choices: list[Choice], **changes: object) -> Paper:
    cells = [Cell("a", "A", "none.toml"), Cell("b", "B", "none.toml", seeds=2)]
    return replace(
        ANY, cells=cells, claims=claims, choices=choices, seeds=4, choice_seeds=3, **changes
    )  # type: ignore[arg-type]


class Counted:
    """A simulator that gives what it is told, and counts."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int, dict[str, str]]] = []
        self._lock = threading.Lock()

    def __call__(
        self, _: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
    ) -> Measured:
        """One run."""
        with self._lock:
            self.ran.append((cell.name, seed, dict(set)))
        x = float(set.get("x", "10")) + 0.01 * seed
        return Measured({"x": x, "y": -x})


def test_cells_and_choices_have_seeds_of_their_own() -> None:
    choice = Choice("other", "", {"x": "20"})
    execute = Counted()
    reproduce(paper([above(5.0, "a", "b")], [choice]), choices=[choice], execute=execute)
    base = [(cell, seed) for cell, seed, set in execute.ran if not set]
    other = [(cell, seed) for cell, seed, set in execute.ran if set]
    assert sorted(base) == [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("b", 2)]
    assert sorted(other) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]


def test_a_kernel_has_settings_of_its_own_below_a_choices() -> None:
    choices = [
        Choice("other", "", {"x": "20"}),
        Choice("simulated", "", {"x": "30"}, on_kernel=False),
    ]
    subject = paper([above(5.0, "a")], choices, on_kernel=lambda cell: {"x": "1", "of": cell.name})
    execute = Counted()
    outcome = reproduce(
        subject, choices=choices, seeds=2, backend="kernel-virtual", execute=execute
    )
    assert [choice.name for choice in outcome.choices] == ["other"]
    assert {frozenset(set.items()) for _, _, set in execute.ran} == {
        frozenset({("x", "1"), ("of", "a")}),
        frozenset({("x", "20"), ("of", "a")}),
    }
    execute = Counted()
    reproduce(subject, choices=choices, seeds=2, execute=execute)
    assert {frozenset(set.items()) for _, _, set in execute.ran} == {
        frozenset(),
        frozenset({("x", "20")}),
        frozenset({("x", "30")}),
    }


def test_quick_settings_go_on_top() -> None:
    execute = Counted()
    subject = paper([above(5.0, "a")], [], quick={"x": "3", "duration": "1 s"})
    reproduce(subject, quick=True, execute=execute)
    assert {tuple(set.items()) for _, _, set in execute.ran} == {(("x", "3"), ("duration", "1 s"))}


def test_a_choice_alone_is_judged_from_its_own_cells() -> None:
    # With b the mean is below, without it above.
    claim = above(14.0, "a", "b")
    touching = Choice("a only", "", {"x": "16"}, frozenset({"a"}))
    alone = replace(touching, name="alone", alone=True)
    # Three runs of each: two do not decide the sign of a difference.
    cells = [Cell("a", "A", "none.toml"), Cell("b", "B", "none.toml", seeds=3)]
    subject = replace(paper([claim], [touching, alone]), cells=cells)
    outcome = reproduce(subject, choices=[touching, alone], execute=Counted())
    (judged,) = outcome.judged()
    verdicts = {name: verdict for name, (_, verdict) in judged.choices.items()}
    assert verdicts == {"a only": Verdict.FAILS, "alone": Verdict.HOLDS}
    assert judged.flips == ["alone"]
    assert judged.verdict is Verdict.DEPENDS


def test_another_definition_runs_nothing_again() -> None:
    choice = Choice("y for x", "", {}, reads={"x": "y"})
    execute = Counted()
    outcome = reproduce(paper([above(5.0, "a")], [choice]), choices=[choice], execute=execute)
    assert len(execute.ran) == 4
    (judged,) = outcome.judged()
    assert judged.verdict is Verdict.DEPENDS
    interval, _ = judged.choices["y for x"]
    assert interval is not None
    assert interval.mean == pytest.approx(-10.025)


def test_settings_can_differ_from_cell_to_cell() -> None:
    choice = Choice("per cell", "", {}, of_cell=lambda cell: {"x": {"a": "1", "b": "2"}[cell.name]})
    execute = Counted()
    reproduce(paper([above(5.0, "a", "b")], [choice]), choices=[choice], execute=execute)
    assert {(cell, set["x"]) for cell, _, set in execute.ran if set} == {("a", "1"), ("b", "2")}


def test_fewer_seeds_alone_flip_nothing() -> None:
    """An interval of two seeds is wide, so base runs of the same seeds are undecided too."""

    def noisy(
        paper: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
    ) -> Measured:
        return Measured({"x": 10.0 + (-1.0) ** seed})

    choice = Choice("nothing changes", "", {"x": "10"})
    subject = replace(paper([above(8.0, "a")], [choice]), seeds=20, choice_seeds=2)
    outcome = reproduce(subject, choices=[choice], execute=noisy)
    (judged,) = outcome.judged()
    assert judged.choices["nothing changes"][1] is Verdict.UNDECIDED
    assert judged.verdict is Verdict.HOLDS


def test_a_process_of_its_own_reports_time_and_memory() -> None:
    from narrows.reproduce.kantawala_2002 import PAPER
    from narrows.reproduce.runner import run_one

    cell = next(cell for cell in PAPER.cells if cell.own_process)
    settings = {**cell.set, "duration": "1 s"}
    # Memory of the parent process, which must not count.
    ballast = b"x" * 400_000_000
    found = run_one(PAPER, cell, settings, 1, threading.Event())
    assert len(ballast) == 400_000_000
    assert found["simulated_s"] == 1.0
    assert 0.0 < found["cpu_s"] < 60.0
    assert found["cpu_s_per_100_s"] == pytest.approx(100.0 * found["cpu_s"])
    assert 10.0 < found["peak_mb"] < 300.0


def test_what_its_process_says_is_the_failure() -> None:
    from narrows.reproduce.kantawala_2002 import PAPER
    from narrows.reproduce.runner import run_one

    cell = next(cell for cell in PAPER.cells if cell.own_process)
    with pytest.raises(RuntimeError, match=r"the run's process failed: .*unheard"):
        run_one(PAPER, cell, {**cell.set, "unheard": "1"}, 1, threading.Event())
