"""The search for RED's and Blue's parameters: "we ran several simulations to determine the best".

    python -m narrows.reproduce.kantawala_2002.search red
    python -m narrows.reproduce.kantawala_2002.search blue

It runs the single bottleneck with buffers of 200, 1000 and 5000 packets. A setting's score is its
goodput as a share of Tail Drop's, averaged over the three buffers. The seeds are not those of the
reproduction.

The search begins with a coarse grid. From the best setting there, it tries the next value of each
parameter in both directions, goes to the best of these, and ends when none of them is better. The
best setting therefore lies inside the tested range: each parameter has values on both sides that
are no better, or is at its limit. RED's `max` ends at the buffer and `max_p` at 1. Blue's decrement
ends at half of its increment: Feng, Kandlur, Saha and Shin ("BLUE", 1999) set the increment
"significantly larger". With a decrement as large as the increment, or larger, Blue seldom drops at
all, and comes close to Tail Drop.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from narrows import Scenario, run
from narrows.reproduce.kantawala_2002.cells import SINGLE, queue_settings
from narrows.reproduce.kantawala_2002.queues import queue

LIMITS = (200, 1000, 5000)
"""Buffers, in packets."""
SEEDS = (101, 102)

Place: TypeAlias = tuple[int, ...]
"""The index of each parameter's value, in the order of `Space.values`."""


@dataclasses.dataclass(frozen=True)
class Space:
    """The possible values of a queue's parameters."""

    values: Mapping[str, Sequence[float]]
    """The values of each parameter, in rising order."""
    coarse: Sequence[Mapping[str, Sequence[float]]]
    """The values of the first grid, which may consist of several parts."""
    settings: Callable[[Mapping[str, float], int], dict[str, object]]
    """Makes the queue's keys from chosen values and a buffer in packets."""
    limited: frozenset[str]
    """Parameters whose largest value is their limit."""
    allowed: Callable[[Mapping[str, float]], bool] = lambda _: True

    def at(self, place: Place) -> dict[str, float]:
        """The values at a place."""
        return {
            name: steps[at] for (name, steps), at in zip(self.values.items(), place, strict=True)
        }

    def grid(self) -> Iterator[Place]:
        """The places of the first grid."""
        for part in self.coarse:
            yield from itertools.product(
                *(
                    [steps.index(value) for value in part[name]]
                    for name, steps in self.values.items()
                )
            )

    def around(self, place: Place) -> Iterator[Place]:
        """The neighbours of a place: one parameter is a step further, or a step back."""
        for number, steps in enumerate(self.values.values()):
            for at in (place[number] - 1, place[number] + 1):
                near = (*place[:number], at, *place[number + 1 :])
                if 0 <= at < len(steps) and self.allowed(self.at(near)):
                    yield near

    def title(self, place: Place) -> str:
        """The values in words, such as `min 0.25, max 0.75, weight 2e-05, max_p 0.02`."""
        return ", ".join(f"{name} {value:g}" for name, value in self.at(place).items())


def _red(chosen: Mapping[str, float], limit: int) -> dict[str, object]:
    return {
        "min": chosen["min"] * limit,
        "max": chosen["max"] * limit,
        "weight": chosen["weight"],
        "max_p": chosen["max_p"],
    }


def _blue(chosen: Mapping[str, float], _: int) -> dict[str, object]:
    return {
        "increment": chosen["increment"],
        "decrement": chosen["increment"] * chosen["decrement/increment"],
        "freeze": f"{chosen['freeze in ms']:g} ms",
    }


_WEIGHTS = (2e-5, 0.0002, 0.002)
"""With the smallest of the weights below, RED's average never moves, and RED is Tail Drop."""

SPACES = {
    # A threshold above the buffer is never reached.
    "red": Space(
        values={
            "min": (0.05, 0.1, 0.25, 0.5, 0.75),
            "max": (0.15, 0.3, 0.5, 0.75, 1.0),
            "weight": (2e-7, 2e-6, 2e-5, 0.0002, 0.002, 0.02),
            "max_p": (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
        },
        coarse=[
            {"min": (low,), "max": (high,), "weight": _WEIGHTS, "max_p": (0.02, 0.1, 0.5)}
            for low, high in ((0.1, 0.3), (0.25, 0.75), (0.5, 1.0))
        ],
        settings=_red,
        limited=frozenset({"max", "max_p"}),
        allowed=lambda chosen: chosen["min"] < chosen["max"],
    ),
    "blue": Space(
        values={
            "increment": (1e-5, 2e-5, 5e-5, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.02, 0.1, 0.5),
            "decrement/increment": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
            "freeze in ms": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
        },
        coarse=[
            {
                "increment": (0.0025, 0.02, 0.1),
                "decrement/increment": (0.1, 0.5),
                "freeze in ms": (10.0, 100.0),
            }
        ],
        settings=_blue,
        limited=frozenset({"decrement/increment"}),
    ),
}


def goodput(kind: str, limit: int, settings: Mapping[str, object], seed: int) -> float:
    """The goodput of all flows, in Mbit/s."""
    path = Path(__file__).parent / "scenarios" / SINGLE.scenario
    text = queue(kind, limit, **settings)
    result = run(Scenario.load(path, set=queue_settings(SINGLE, text)), seed=seed)
    return float(result.summary["flows"]["goodput_mbit_per_s"])


Goodputs: TypeAlias = dict[Place, list[float]]
"""For each setting, the goodput with each buffer, averaged over seeds, in Mbit/s."""


def measured(pool: Executor, kind: str, space: Space, places: Iterable[Place]) -> Goodputs:
    """Runs the settings at these places, and returns their goodputs."""
    jobs = {
        (place, limit): [
            pool.submit(goodput, kind, limit, space.settings(space.at(place), limit), seed)
            for seed in SEEDS
        ]
        for place in places
        for limit in LIMITS
    }
    found: Goodputs = {}
    for (place, _), runs in jobs.items():
        found.setdefault(place, []).append(statistics.fmean(one.result() for one in runs))
    return found


def searched(
    space: Space,
    measure: Callable[[Iterable[Place]], Goodputs],
    score: Callable[[Sequence[float]], float],
) -> tuple[Place, Goodputs]:
    """The best place, and the results of all tested places.

    Raises:
        LookupError: The best place is at the end of a parameter's values, but not at its limit.
    """
    found = measure(space.grid())
    while True:
        best = max(found, key=lambda place: score(found[place]))
        untried = [place for place in space.around(best) if place not in found]
        if not untried:
            break
        found |= measure(untried)
    for name, at in zip(space.values, best, strict=True):
        last = len(space.values[name]) - 1
        if at == 0 or (at == last and name not in space.limited):
            raise LookupError(f"the best {name} is the last that can be tried; hint: add values")
    return best, found


def main(kind: str) -> None:
    """Searches, and prints all settings, best first."""
    space = SPACES[kind]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tail_drop = [
            statistics.fmean(goodput("droptail", limit, {}, seed) for seed in SEEDS)
            for limit in LIMITS
        ]

        def score(values: Sequence[float]) -> float:
            return statistics.fmean(
                value / most for value, most in zip(values, tail_drop, strict=True)
            )

        best, found = searched(space, functools.partial(measured, pool, kind, space), score)
    print(f"| {kind} | " + " | ".join(f"{n} packets" for n in LIMITS) + " | of Tail Drop |")
    print("| --- |" + " --- |" * (len(LIMITS) + 1))
    print("| Tail Drop | " + " | ".join(f"{value:.1f}" for value in tail_drop) + " | 100 % |")
    for place in sorted(found, key=lambda place: -score(found[place])):
        cells = " | ".join(f"{value:.1f}" for value in found[place])
        mark = "**" if place == best else ""
        title = f"{mark}{space.title(place)}{mark}"
        print(f"| {title} | {cells} | {100 * score(found[place]):.2f} % |")


if __name__ == "__main__":
    main(*sys.argv[1:])
