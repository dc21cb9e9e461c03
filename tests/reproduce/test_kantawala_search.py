"""The search for RED's and Blue's parameters goes on until the best lies inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from narrows.reproduce.kantawala_2002.search import SPACES, Goodputs, Place, Space, searched


def hill(top: Place) -> Callable[[Iterable[Place]], Goodputs]:
    """A goodput that falls with each step away from a place."""

    def measure(places: Iterable[Place]) -> Goodputs:
        return {
            place: [-float(sum(abs(a - b) for a, b in zip(place, top, strict=True)))]
            for place in places
        }

    return measure


def first(values: Sequence[float]) -> float:
    return values[0]


@pytest.mark.parametrize("kind", SPACES)
def test_the_best_is_found_outside_of_the_first_grid(kind: str) -> None:
    space = SPACES[kind]
    top = tuple(1 for _ in space.values)
    assert top not in set(space.grid())
    best, found = searched(space, hill(top), first)
    assert best == top
    assert set(space.around(best)) <= found.keys()


def test_a_best_value_at_the_end_is_refused() -> None:
    space = SPACES["blue"]
    with pytest.raises(LookupError, match="the best increment is the last that can be tried"):
        searched(space, hill(tuple(0 for _ in space.values)), first)


def test_a_largest_value_that_is_a_limit_is_no_end() -> None:
    space = SPACES["red"]
    values = {"min": 0.25, "max": 1.0, "weight": 2e-5, "max_p": 1.0}
    top = tuple(steps.index(values[name]) for name, steps in space.values.items())
    assert searched(space, hill(top), first)[0] == top


def test_steps_go_both_ways() -> None:
    def nothing(_: object, __: int) -> dict[str, object]:
        return {}

    space = Space(
        {"a": (1.0, 2.0, 3.0), "b": (1.0, 2.0)}, [{"a": (2.0,), "b": (1.0,)}], nothing, frozenset()
    )
    assert sorted(space.around((1, 0))) == [(0, 0), (1, 1), (2, 0)]
    assert space.title((1, 0)) == "a 2, b 1"
