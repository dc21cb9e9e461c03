from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from synthetic_run import synthetic_run

from narrows.errors import NarrowsError
from narrows.results import Axis, Sweep, SweepRun, compare_sweeps
from narrows.results.intervals import paired

pytestmark = pytest.mark.slow

KINDS = ("bfifo", "red")


def sweep_of(
    name: str,
    kind: str,
    losses: tuple[float, ...],
    seeds: tuple[int, ...] = (1, 2, 3),
    failed: tuple[tuple[float, int], ...] = (),
    key: str = "loss",
) -> Sweep:
    """A sweep over a loss, made of synthetic runs."""
    runs = []
    for loss in losses:
        for seed in seeds:
            facts: Mapping[str, Any] = {"run": f"{loss}/{seed}", "seed": seed}
            if (loss, seed) in failed:
                runs.append(
                    SweepRun(
                        **facts,
                        settings={key: loss},
                        status="failed",
                        stopped="",
                        message="out of luck",
                        end_s=None,
                        events=None,
                    )
                )
                continue
            run = synthetic_run(kind=kind, seed=seed, loss=loss, duration_s=60.0, workers=5)
            runs.append(
                SweepRun(
                    **facts,
                    settings={key: loss},
                    status="complete",
                    stopped="end",
                    message="",
                    end_s=run.end_s,
                    events=run.events,
                    summary=run.summary,
                )
            )
    axes = (Axis(key, losses),)
    return Sweep(name, {"name": name}, axes, seeds, tuple(runs), "0.1.0", "complete")


def test_each_combination_is_compared_with_its_like() -> None:
    fifo, red = sweep_of("a", "bfifo", (0.03, 0.1)), sweep_of("b", "red", (0.1, 0.03, 0.2))
    found = compare_sweeps([fifo, red])
    assert [comparison.setting for comparison in found] == ["loss 0.03", "loss 0.1"]
    for comparison, loss in zip(found, (0.03, 0.1), strict=True):
        assert [group.label for group in comparison.groups] == ["a", "b"]
        samples = [
            [
                run.summary["dns"]["first_attempt_percent"]
                for run in sweep.runs
                if run.settings["loss"] == loss
            ]
            for sweep in (fifo, red)
        ]
        (row,) = comparison.only(["dns.first_attempt_percent"]).rows
        change = row.differences[1]
        assert change is not None
        assert (change.low, change.high) == pytest.approx(paired(*samples, 0.0, 100.0)[:2])
        assert comparison.title == f"loss {loss}: a: 3 runs; b: 3 runs"


def test_seeds_stay_paired_where_a_run_failed() -> None:
    fifo = sweep_of("a", "bfifo", (0.1,))
    red = sweep_of("b", "red", (0.1,), failed=((0.1, 2),))
    (found,) = compare_sweeps([fifo, red])
    assert [group.seeds for group in found.groups] == [[1, 3], [1, 3]]
    assert found.title == "loss 0.1: a: 2 of 3 runs; b: 2 runs"
    note = (
        "a: 1 of 3 runs is left out, because runs are paired by seed and not all groups have seed "
        "2; hint: run the same seeds for all"
    )
    assert note in found.notes
    (row,) = found.only(["dns.first_attempt_percent"]).rows
    assert row.differences[1] is not None
    assert row.differences[1].seeds == 2


def test_all_seeds_that_are_left_out_are_named() -> None:
    ten = sweep_of("a", "bfifo", (0.1,), tuple(range(1, 11)))
    few = sweep_of("b", "red", (0.1,), (1, 2, 5))
    (found,) = compare_sweeps([ten, few])
    assert [len(group.runs) for group in found.groups] == [3, 3]
    (note,) = [note for note in found.notes if "left out" in note]
    assert note.startswith("a: 7 of 10 runs are left out, ")
    assert "not all groups have seeds 3-4, 6-10; " in note


def test_of_one_sweep_its_combinations_are_compared() -> None:
    (found,) = compare_sweeps([sweep_of("a", "red", (0.03, 0.1, 0.2))])
    assert [group.label for group in found.groups] == ["loss 0.03", "loss 0.1", "loss 0.2"]
    (row,) = found.only(["dns.first_attempt_percent"]).rows
    assert [change and change.verdict for change in row.differences] == [None, "lower", "lower"]


def test_a_queue_has_a_short_name_in_titles() -> None:
    found = compare_sweeps([crossed(), replace(crossed(), name="b")])
    assert [each.setting for each in found] == [
        "loss 0.03, red",
        "loss 0.03, codel",
        "loss 0.2, red",
        "loss 0.2, codel",
    ]
    # A single combination in common is named, too.
    one = tuple(run for run in crossed().runs if run.settings["loss"] == 0.2)
    few = replace(crossed(), name="b", runs=one)
    found = compare_sweeps([crossed(), few])
    assert [each.setting for each in found] == ["loss 0.2, red", "loss 0.2, codel"]


def test_neither_backend_is_better() -> None:
    sim = sweep_of("a", "bfifo", (0.03,))
    kernel = replace(sweep_of("a", "red", (0.03,)), backend="kernel")
    (found,) = compare_sweeps([sim, kernel])
    sure = [row for row in found.rows if (d := row.differences[1]) and d.is_significant]
    assert sure and {row.better for row in sure} > {""}
    assert {row.word(1) for row in sure} <= {"higher", "lower"}
    assert not any("(better)" in text or "(worse)" in text for text in found.sentences)
    assert any(note.startswith("between backends, ") for note in found.notes)


def test_many_combinations_are_rows_and_every_sentence_names_its_groups() -> None:
    (found,) = compare_sweeps([sweep_of("a", "red", (0.03, 0.031, 0.2))])
    lines = str(found.table()).splitlines()
    assert max(map(len, lines)) < 200
    at = lines.index("DNS: measured queries")
    assert [line.split()[:2] for line in lines[at + 1 : at + 4]] == [
        ["loss", "0.03"],
        ["loss", "0.031"],
        ["loss", "0.2"],
    ]
    unclear = [text for text in found.sentences if "no difference seen" in text]
    assert unclear
    assert all("between loss 0." in text and "and loss 0.03 " in text for text in unclear)
    assert "Seed by seed:" in lines


def crossed() -> Sweep:
    """Two losses, each with two queues; the results depend only on the loss."""
    plain = sweep_of("a", "red", (0.03, 0.2))
    kinds = ({"kind": "red"}, {"kind": "codel"})
    runs = tuple(
        replace(run, settings={**run.settings, "queue": kind})
        for run in plain.runs
        for kind in kinds
    )
    return replace(plain, axes=(*plain.axes, Axis("queue", kinds)), runs=runs)


@pytest.mark.parametrize(
    ("against", "settings", "labels"),
    [
        ({"loss": 0.2}, ["red", "codel"], ["loss 0.2", "loss 0.03"]),
        ({"queue": "codel"}, ["loss 0.03", "loss 0.2"], ["codel", "red"]),
        (
            {"queue": {"kind": "codel"}, "loss": 0.2},
            [""],
            ["loss 0.2, codel", "loss 0.03, red", "loss 0.03, codel", "loss 0.2, red"],
        ),
    ],
)
def test_the_others_are_compared_with_the_value_that_is_named(
    against: dict[str, Any], settings: list[str], labels: list[str]
) -> None:
    found = compare_sweeps([crossed()], against)
    assert [comparison.setting for comparison in found] == settings
    assert [group.label for group in found[0].groups] == labels


def test_what_nothing_can_be_compared_with_is_refused() -> None:
    sweep = crossed()
    for against, message in (
        ({"queue": "pie"}, "queue=pie was not run; hint: one of red, codel"),
        ({"limit": 3}, "limit was not varied"),
    ):
        with pytest.raises(NarrowsError, match=message):
            compare_sweeps([sweep], against)
    with pytest.raises(NarrowsError, match="hint: name one sweep"):
        compare_sweeps([sweep, sweep], {"loss": 0.2})


def test_sweeps_of_one_name_are_called_after_what_differs() -> None:
    first, other = sweep_of("a", "bfifo", (0.1,)), sweep_of("a", "red", (0.1,))
    object.__setattr__(first, "scenario", {"name": "a", "queue": {"kind": "bfifo"}})
    object.__setattr__(other, "scenario", {"name": "a", "queue": {"kind": "red"}})
    (found,) = compare_sweeps([first, other])
    assert [group.label for group in found.groups] == ["kind bfifo", "kind red"]


def test_what_cannot_be_compared_is_refused() -> None:
    one = sweep_of("a", "red", (0.1,))
    for others, message in (
        ([sweep_of("b", "red", (0.1,), key="delay")], "b: varies delay, and a varies loss"),
        ([sweep_of("b", "red", (0.2,))], "have no combination of values in common"),
        ([], "has 1 combination with complete runs; hint: name a second sweep"),
    ):
        with pytest.raises(NarrowsError, match=message):
            compare_sweeps([one, *others])
    with pytest.raises(NarrowsError, match="nothing to compare"):
        compare_sweeps([])
