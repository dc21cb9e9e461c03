"""A sweep's plan: all combinations, each validated before anything runs.

A run is identified by a digest of its resolved scenario (without the seed), its seed, its backend,
and the version of narrows. A run with a known digest does not run again.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.backends import DEFAULT, BackendError, chosen_for
from narrows.errors import ScenarioError
from narrows.results.sweep_run import Axis, canonical
from narrows.scenario import Scenario
from narrows.scenario.overrides import set_value
from narrows.sweeps.axes import MOST_RUNS
from narrows.sweeps.errors import Errors, SweepError, setting_words
from narrows.sweeps.variants import refuse_overlaps

if TYPE_CHECKING:
    from narrows.backends.outside import Outside

MOST_CHECK_S = 600.0
"""The longest time, in seconds, for checking all combinations, estimated from a few of them."""


@dataclass(frozen=True)
class Item:
    """One run."""

    run: str
    """The digest of the run."""
    places: tuple[int, ...]
    """The index of its value on each axis."""
    seed: int


@dataclass(frozen=True)
class Plan:
    """What a sweep runs."""

    base: Mapping[str, Any]
    """The scenario's values, with the settings for all runs."""
    file: str
    """The scenario's file, for errors."""
    name: str
    """The scenario's name."""
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    digests: Mapping[tuple[int, ...], str]
    """The digest of each combination's scenario."""
    backend: str
    """What does the runs."""
    whole: bool = True
    """Whether the plan has every combination."""
    outside: Outside | None = None
    """Queues and congestion controls from outside."""

    def items(self) -> Iterator[Item]:
        """All runs in order of seed, so that an interrupted sweep has some of each combination."""
        for seed in self.seeds:
            for places, digest in self.digests.items():
                yield Item(run_digest(digest, seed), places, seed)

    @cached_property
    def runs(self) -> frozenset[str]:
        """The digests of all runs."""
        return frozenset(item.run for item in self.items())

    def values(self, item: Item) -> list[Any]:
        """The values of a run's varied keys."""
        return [axis.values[place] for axis, place in zip(self.axes, item.places, strict=True)]

    def label(self, item: Item) -> str:
        """A run in words."""
        words = setting_words(self.axes, item.places)
        return f"{words}, seed {item.seed}" if words else f"seed {item.seed}"


def make_plan(
    base: Mapping[str, Any],
    file: str,
    axes: Sequence[Axis],
    seeds: Sequence[int],
    *,
    backend: str = DEFAULT,
    written: Mapping[str, str] | None = None,
    only: Callable[[tuple[int, ...]], bool] | None = None,
    progress: Callable[[int, int], object] | None = None,
    outside: Outside | None = None,
) -> Plan:
    """Validates first each value alone and then every combination, and makes the plan.

    Args:
        base: The scenario's values, with the settings for all runs.
        file: The scenario's file, for errors.
        axes: The varied keys.
        seeds: The seeds with which every combination is run.
        backend: The backend of the runs.
        written: The keys that are set for all runs, in the user's spelling, by their paths.
        only: Says whether the plan has a combination, from the index of each value; by default all.
        progress: Called with the number of checked combinations and the number of all.
        outside: Queues and congestion controls from outside.

    Raises:
        ScenarioError: Combinations are not valid scenarios; each error is raised once.
        BackendError: There is no such backend, or it cannot honour a key of a combination.
        SweepError: The sweep is too large, two combinations are the same, or a key is varied that
            a variant sets.
    """
    sizes = [range(len(axis.values)) for axis in axes]
    wanted: Iterable[tuple[int, ...]] = itertools.product(*sizes)
    combinations = math.prod(map(len, sizes))
    if only is not None:
        wanted = [places for places in wanted if only(places)]
        combinations = len(wanted)
    _refuse_large(file, combinations, len(seeds))
    chosen = chosen_for(backend, outside)
    started = time.perf_counter()
    errors = Errors(axes)
    used: set[str] = set()

    def valid(places: tuple[int, ...], *, with_parts: bool = False) -> Scenario | None:
        """The scenario of a combination, unless something is wrong with it, or with parts in it."""
        errors.checked += 1
        try:
            scenario = combined(base, axes, places, file, written)
            chosen.check(scenario)
            if outside:
                used.update(outside.used_queues(scenario))
                if with_parts and (wrong := outside.wrong(scenario.plan())):
                    raise BackendError(scenario.name, wrong[0])
        except (ScenarioError, BackendError) as error:
            errors.add(error, places)
            return None
        return scenario

    # A wrong value is found here at once, however many combinations contain it.
    alone = [(0,) * len(axes)]
    alone += [
        tuple(place if other == number else 0 for other in range(len(axes)))
        for number, axis in enumerate(axes)
        for place in range(1, len(axis.values))
    ]
    first = valid(alone[0], with_parts=True)
    for places in alone[1:]:
        if errors.are_many:
            break
        valid(places, with_parts=True)
    errors.raise_all()
    assert first is not None, "nothing is wrong with it"
    refuse_overlaps(base, axes, file)
    _refuse_slow(file, combinations, (time.perf_counter() - started) / len(alone))
    digests: dict[tuple[int, ...], str] = {}
    known: dict[str, tuple[int, ...]] = {}
    for places in wanted:
        scenario = valid(places)
        if scenario is None:
            if errors.are_many:
                break
            continue
        digest = scenario_digest(scenario, backend, outside)
        if digest in known:
            one, other = (setting_words(axes, at) for at in (known[digest], places))
            raise SweepError(file, f"{one} and {other} are the same scenario", "leave one out")
        known[digest] = places
        digests[places] = digest
        if progress is not None and len(digests) % 64 == 0:
            progress(len(digests), combinations)
    errors.raise_all()
    if outside and only is None:
        outside.refuse_unused_queues(first, used)
    whole = only is None
    return Plan(base, file, first.name, tuple(axes), tuple(seeds), digests, backend, whole, outside)


def _refuse_large(file: str, combinations: int, seeds: int) -> None:
    runs = combinations * seeds
    if runs > MOST_RUNS:
        raise SweepError(
            file,
            f"{combinations:,} combinations times {seeds:,} seeds are {runs:,} runs, but a sweep "
            f"may have only {MOST_RUNS:,}",
            "give fewer values or seeds, or make several sweeps",
        )


def _refuse_slow(file: str, combinations: int, each_s: float) -> None:
    expected_s = each_s * combinations
    if expected_s > MOST_CHECK_S:
        raise SweepError(
            file,
            f"checking {combinations:,} combinations of this scenario would take about "
            f"{expected_s / 60:,.0f} minutes",
            "give fewer values, or make several sweeps",
        )


def combined(
    base: Mapping[str, Any],
    axes: Sequence[Axis],
    places: Sequence[int],
    file: str,
    written: Mapping[str, str] | None = None,
) -> Scenario:
    """The scenario of one combination.

    Args:
        base: The scenario's values, with the settings for all runs.
        axes: The varied keys.
        places: The index of the value on each axis.
        file: The scenario's file, for errors.
        written: The keys that are set for all runs, in the user's spelling, by their paths.

    Raises:
        ScenarioError: It is invalid.
    """
    values = copy.deepcopy(dict(base))
    keys = dict(written or {})

    def comes_later(chosen: tuple[Axis, int]) -> bool:
        """Whether a value is neither a table nor an array, which would replace an earlier key."""
        axis, place = chosen
        return axis.sets is None and not isinstance(axis.values[place], Mapping | list | tuple)

    for axis, place in sorted(zip(axes, places, strict=True), key=comes_later):
        for key, value in axis.settings(place).items():
            keys[set_value(values, key, value, file)] = key
    return Scenario.from_dict(values, file=file, written=keys)


def scenario_digest(scenario: Scenario, backend: str, outside: Outside | None = None) -> str:
    """The digest of a scenario without its seed, of narrows' version, the backend and own parts."""
    resolved = {key: value for key, value in scenario.resolved().items() if key != "seed"}
    parts = [outside.record] if outside else []
    facts = [_core.version, backend, resolved, *parts]
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def run_digest(scenario: str, seed: int) -> str:
    """The digest of a run: 16 hexadecimal digits."""
    return hashlib.sha256(f"{scenario}/{seed}".encode()).hexdigest()[:16]


def identity(base: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The digest that two sweeps of one backend must share to use the same folder."""
    return canonical([_core.version, base, list(keys)])
