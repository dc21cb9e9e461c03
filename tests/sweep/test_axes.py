"""The forms in which varied keys and values can be given."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import ScenarioError
from narrows.sweeps import SweepError, axes_of, parse_vary, read_plan
from narrows.sweeps.axes import seeds_of


def test_commas_within_brackets_and_quotes_separate_nothing() -> None:
    given = ["a={x=1, y=[2,3]},{x=2}", 'b="1,5",2', "a={x=3}", "c='a,b'", 'd="\\",",e']
    assert parse_vary(given) == {
        "a": ["{x=1, y=[2,3]}", "{x=2}", "{x=3}"],
        "b": ['"1,5"', "2"],
        "c": ["'a,b'"],
        "d": ['"\\","', "e"],
    }


def test_values_are_toml_or_text() -> None:
    (axis,) = axes_of({"k": ["1", "2.5", "true", "10 Mbit/s", "{kind='red'}", 7, {"a": 1}]})
    assert axis.values == (1, 2.5, True, "10 Mbit/s", {"kind": "red"}, 7, {"a": 1})


@pytest.mark.parametrize("text", ["queue.limit", "=3", "queue.limit=", "queue.limit=1,,2"])
def test_what_is_no_vary_is_refused(text: str) -> None:
    with pytest.raises(SweepError, match="hint: "):
        parse_vary([text])


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"k": []}, "k: has no values"),
        ({"k": [1, "1"]}, "k: has the value 1 twice"),
        ({"k": "1,2"}, "k: is varied over one value; hint: give a list"),
        ({"seed": [1, 2]}, "use `seeds`"),
        ({"k": range(10**9)}, "more than 100,000 values"),
    ],
)
def test_axes_that_cannot_be(vary: dict[str, object], message: str) -> None:
    with pytest.raises(SweepError, match=message):
        axes_of(vary)  # type: ignore[arg-type]


def test_seeds_are_counted_or_listed() -> None:
    assert seeds_of(3) == (1, 2, 3)
    assert seeds_of([7, 3]) == (7, 3)
    for wrong in (0, -1, 10**9, [], [1, 1], [-1], [2**63], ["1"], True):
        with pytest.raises(SweepError, match="seed"):
            seeds_of(wrong)  # type: ignore[arg-type]


def test_a_plan_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        """
        seeds = [1, 5]
        [set]
        traffic.connections = 2
        [vary]
        links.bottleneck.rate = ["1 Mbit/s", "2 Mbit/s"]
        "links[0].delay" = ["5 ms"]
        [[vary.queue]]
        kind = "pfifo"
        [[vary.queue]]
        kind = "bfifo"
        limit = "1 kB"
        """,
        encoding="utf-8",
    )
    plan = read_plan(path)
    assert plan.seeds == [1, 5]
    assert plan.set == {"traffic.connections": 2}
    axes = {axis.key: axis.values for axis in axes_of(plan.vary)}
    assert axes == {
        "links.bottleneck.rate": ("1 Mbit/s", "2 Mbit/s"),
        "links[0].delay": ("5 ms",),
        "queue": ({"kind": "pfifo"}, {"kind": "bfifo", "limit": "1 kB"}),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vari = 3", r"plan.toml: vari: is not a key of a plan; hint: did you mean .vary"),
        ("vary = 3", "plan.toml: vary: is not a table"),
        ("[vary]\nqueue.limit = 3", "vary.queue.limit: is not a list of values"),
        ("seeds = 'x'", "seeds: is neither"),
        ("[vary", "is not valid TOML"),
    ],
)
def test_a_plan_file_that_is_none(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=message):
        read_plan(path)
