"""The search for RED's and Blue's parameters: "we ran several simulations to determine the best".

    python -m narrows.reproduce.kantawala_2002.search red
    python -m narrows.reproduce.kantawala_2002.search blue

Every combination of a small grid in the single bottleneck with buffers of 200, 1000 and 5000
packets; best is the highest goodput, averaged over the three as a share of the best at each. Seeds
are other ones than the reproduction's.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from narrows import Scenario, run
from narrows.reproduce.kantawala_2002.cells import SINGLE, queue_settings
from narrows.reproduce.kantawala_2002.queues import queue

LIMITS = (200, 1000, 5000)
SEEDS = (101, 102)

THRESHOLDS = ((0.1, 0.3), (0.25, 0.75), (0.5, 1.0))
"""RED's `min` and `max` as shares of the buffer."""
RED_WEIGHTS = (0.002, 0.0002)
RED_MAX_PS = (0.02, 0.1, 0.5)

INCREMENTS = (0.0025, 0.02, 0.1)
DECREMENT_SHARES = (0.1, 0.5)
"""Blue's decrement as a share of its increment."""
FREEZES = ("10 ms", "100 ms")


def grid(which: str, limit: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Every combination of parameters, with a name."""
    if which == "red":
        for (low, high), weight, max_p in itertools.product(THRESHOLDS, RED_WEIGHTS, RED_MAX_PS):
            yield (
                f"min {low:g}, max {high:g} of the buffer, weight {weight:g}, max_p {max_p:g}",
                {"min": low * limit, "max": high * limit, "weight": weight, "max_p": max_p},
            )
    else:
        for step, share, freeze in itertools.product(INCREMENTS, DECREMENT_SHARES, FREEZES):
            yield (
                f"increment {step:g}, decrement {step * share:g}, freeze {freeze}",
                {"increment": step, "decrement": step * share, "freeze": freeze},
            )


def goodput(which: str, limit: int, settings: dict[str, object], seed: int) -> float:
    """The goodput of all flows, in Mbit/s."""
    path = Path(__file__).parent / "scenarios" / SINGLE.scenario
    text = queue(which, limit, **settings)
    result = run(Scenario.load(path, set=queue_settings(SINGLE, text)), seed=seed)
    return float(result.summary["flows"]["goodput_mbit_per_s"])


def main(which: str) -> None:
    """Runs the grid and prints it, best first."""
    jobs = [
        (name, limit, settings, seed)
        for limit in LIMITS
        for name, settings in grid(which, limit)
        for seed in SEEDS
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        values = list(pool.map(lambda job: goodput(which, job[1], job[2], job[3]), jobs))
    found: dict[str, dict[int, list[float]]] = {}
    for (name, limit, _, _), value in zip(jobs, values, strict=True):
        found.setdefault(name, {}).setdefault(limit, []).append(value)
    means = {
        name: {limit: statistics.fmean(by_limit[limit]) for limit in LIMITS}
        for name, by_limit in found.items()
    }
    best = {limit: max(mean[limit] for mean in means.values()) for limit in LIMITS}
    score = {
        name: statistics.fmean(mean[limit] / best[limit] for limit in LIMITS)
        for name, mean in means.items()
    }
    print(f"| {which} | " + " | ".join(f"{n} packets" for n in LIMITS) + " | of the best |")
    print("| --- |" + " --- |" * (len(LIMITS) + 1))
    for name in sorted(score, key=lambda name: -score[name]):
        cells = " | ".join(f"{means[name][limit]:.1f}" for limit in LIMITS)
        print(f"| {name} | {cells} | {100 * score[name]:.2f} % |")


if __name__ == "__main__":
    main(*sys.argv[1:])
