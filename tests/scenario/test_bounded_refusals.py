"""A refusal costs little, however large or wrong the file is: the work is counted, not the time."""

from __future__ import annotations

import difflib
from typing import Any, Literal

import pytest

from narrows import Scenario
from narrows.errors import MOST_TOGETHER, ScenarioError
from narrows.scenario import Link, checks, suggestions
from narrows.scenario.links import Direction
from narrows.scenario.rules import MOST_FAULTS, Faults

LINK = {"name": "l{i}", "between": ["n{i}", "hub"], "rate": "1 Mbit/s", "count": 2000}
INCAST = {"kind": "incast", "name": "s", "client": "hub", "block": "1 kB", "rounds": 1}
LONG = "x" * 10**6


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"a": [found]}
    return found


WRONG: dict[str, dict[str, Any]] = {
    "copies": {"traffic": [{**INCAST, "servers": ["server{i}"], "count": 3000}]},
    "unknown nodes": {"traffic": [{**INCAST, "servers": [f"m{i}" for i in range(3000)]}]},
    "long nodes": {"traffic": [{**INCAST, "servers": [LONG, f"{LONG}y"]}]},
    "wrong groups": {"traffic": [{"kind": "x", f"k{i}": 1} for i in range(3000)]},
    "wrong keys": {"traffic": [{**INCAST, **{f"k{i}": 1 for i in range(3000)}}]},
    "wrong keys at the top": {f"k{i}": 1 for i in range(3000)},
    "a long key": {LONG: 1, f"{LONG}y": 2},
    "links": {"monitor": {"queues": {"links": [f"m{i}" for i in range(3000)], "rate": 1}}},
    "nesting": {"links": deep(400)},
    "numbers": {"links": [1] * 3000, "traffic": [10**400] * 3000},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_hints_compare_a_bounded_number_of_characters(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    class Counted(difflib.SequenceMatcher[str]):
        def ratio(self) -> float:
            nonlocal compared
            compared += max(1, len(vars(self)["a"]) * len(vars(self)["b"]))
            return super().ratio()

    monkeypatch.setattr(difflib, "SequenceMatcher", Counted)
    values = {"name": "a", "duration": "1 s", "links": [LINK], **WRONG[wrong]}
    with pytest.raises(ScenarioError) as refused:
        Scenario.from_dict(values)
    errors = (refused.value, *refused.value.others)
    assert len(errors) <= MOST_TOGETHER and all(len(str(each)) < 2000 for each in errors)
    # Two comparisons for each word, of up to 80 characters, in a second look as well.
    assert compared <= 4 * MOST_FAULTS * 80 * suggestions.MOST_COMPARED


def test_the_rules_of_a_copied_link_are_checked_for_few_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = 0
    rules = Link.faults

    def counted(link: Link) -> Faults:
        nonlocal checked
        checked += 1
        return rules(link)

    monkeypatch.setattr(Link, "faults", counted)
    with pytest.raises(ScenarioError, match=r"traffic\[0\].sendr"):
        Scenario.from_dict(
            {
                "name": "a",
                "duration": "1 s",
                "links": [LINK],
                "traffic": [{"kind": "bulk", "name": "x", "sendr": "n1", "receiver": "hub"}],
            }
        )
    assert checked <= 2


def test_a_copy_that_joins_a_node_with_itself_is_found_among_the_others() -> None:
    with pytest.raises(ScenarioError, match="joins a node with itself") as refused:
        Scenario.from_dict(
            {"name": "a", "duration": "1 s", "links": [{**LINK, "between": ["n{i}", "n7"]}]}
        )
    assert not refused.value.others


@pytest.mark.parametrize(
    ("pattern", "changes", "refusal", "most"),
    [
        # 1500 patterns for 4000 names of directions are more than 5 million comparisons.
        ("*1*", 1500, "has too many patterns for so many links", 0),
        # Each selects all 4000 directions, so the 26th goes beyond 100,000 changes.
        ("l*", 50, "make more than 100000 changes to links", 26 * 4000),
        ("l7", 1500, None, 0),
    ],
)
def test_the_work_for_changes_is_bounded(
    pattern: str, changes: int, refusal: str | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    fits = checks._fits

    def counted(name: str, pieces: list[str]) -> bool:
        nonlocal compared
        compared += 1
        return fits(name, pieces)

    monkeypatch.setattr(checks, "_fits", counted)
    built = 0
    direction = Link.direction

    def counted_direction(link: Link, which: Literal["forward", "backward"]) -> Direction:
        nonlocal built
        built += 1
        return direction(link, which)

    monkeypatch.setattr(Link, "direction", counted_direction)
    change = {"at": "1 s", "link": pattern, "rate": "2 bit/s"}
    values = {"name": "a", "duration": "2 s", "links": [LINK], "changes": [change] * changes}
    if refusal is None:
        assert len(Scenario.from_dict(values).plan()["changes"]) == 2 * changes
    else:
        with pytest.raises(ScenarioError, match=refusal):
            Scenario.from_dict(values)
    # Finding the other errors of a refused file takes a second look.
    assert compared <= 2 * most
    # A few times for each of the 4000 directions, however many changes there are.
    assert built <= 4 * 4000


def test_the_filters_of_a_copied_link_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    filters = checks.filters

    def counted(queue: Any) -> Any:
        nonlocal read
        read += 1
        return filters(queue)

    monkeypatch.setattr(checks, "filters", counted)
    bands = [{"name": "one", "match": [{"source": "n7"}]}, {"name": "rest"}]
    link = {**LINK, "queue": {"kind": "prio", "bands": bands}}
    Scenario.from_dict({"name": "a", "duration": "1 s", "links": [link]})
    assert read == 1
