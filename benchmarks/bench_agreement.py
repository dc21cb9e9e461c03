"""Agreement with ns-2 on scenarios made for ns-2, over ten seeds: `make bench-agreement`.

Scenario B1 (500 on-off sources, 100 s) and B2 (five transfers over DS1, 600 s) with Drop Tail, RED
and DRR, and B2 with RED and ECN, in narrows (profile `ns-2`) and in ns-2. For each metric: the mean
over seeds of both, the difference of the means in percent with its 95 % interval (Welch), and
whether the difference is within the bound. QUICK=1: three seeds, B1 for 20 s.
The last line of stdout is a JSON object: by scenario and discipline, for each metric `ours`, `ns2`,
`difference` (a share: 0.01 is 1 %), `low`, `high`, `bound` and `kept`.
"""

import argparse
import concurrent.futures
import json
import math
import os
import shutil
import sys
import tomllib
from statistics import fmean
from typing import Any

import measure
import peers
from measure import HERE
from narrows import Scenario, _core
from narrows.results.intervals import welch

BOUNDS = {"goodput": 0.03, "burst time": 0.05, "mean queue": 0.05, "drop rate": 0.15}
"""The metrics that are judged, and the largest difference that each may have, as a share."""

CASES = {
    "b1": ("droptail", "red", "drr"),
    "b2": ("droptail", "red", "red-ecn", "drr"),
}
EVENTS_PER_CALL = 1_000_000


def scenario(name: str, discipline: str, seconds: float | None) -> Scenario:
    """A scenario with a discipline at its bottleneck; `seconds` replaces its own duration."""
    folder = HERE / name
    values = tomllib.loads((folder / f"{name}.toml").read_text("utf-8"))
    if seconds is not None:
        values["duration"] = f"{seconds:g} s"
    if discipline != "droptail":
        (bottleneck,) = (link for link in values["links"] if link["name"] == "bottleneck")
        kind = discipline.removesuffix("-ecn")
        queue = tomllib.loads((folder / f"{kind}.toml").read_text("utf-8"))
        if discipline.endswith("-ecn"):
            queue["ecn"] = values["traffic"][0]["tcp"]["ecn"] = True
        bottleneck["forward"]["queue"] = queue
    return Scenario.from_dict(values)


def metrics(said: dict[str, Any]) -> dict[str, float]:
    """The metrics that are judged, from what an engine reported about a run."""
    return {
        "goodput": said["goodput_mbps"],
        "burst time": said["completion_s"] if said["bursts"] else math.nan,
        "mean queue": said["backlog_packets"],
        "drop rate": said["drops"] / (said["packets"] + said["drops"]),
    }


def narrows_run(plan: dict[str, Any]) -> dict[str, float]:
    """Runs a plan in narrows."""
    simulation = _core.Simulation(json.dumps(plan))
    while not simulation.advance(EVENTS_PER_CALL):
        pass
    return metrics(peers.summary(simulation.tables(), plan["end"] / peers.PICOSECONDS))


def ns2_run(plan: dict[str, Any]) -> dict[str, float]:
    """Runs a plan in ns-2."""
    script = str(HERE / "ns2" / "dumbbell.tcl")
    return metrics(measure.run(["ns", script, *peers.ns2_words(plan)]).said)


def run_case(
    name: str, discipline: str, seeds: int, seconds: float | None
) -> dict[str, dict[str, Any]]:
    """Runs a case in both programs for all seeds, and judges it."""
    setting = scenario(name, discipline, seconds)
    plans = [setting.plan(seed=seed) for seed in range(1, seeds + 1)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        theirs = list(pool.map(ns2_run, plans))
        ours = list(pool.map(narrows_run, plans))
    return {
        metric: judged([run[metric] for run in ours], [run[metric] for run in theirs], bound)
        for metric, bound in BOUNDS.items()
        if not any(math.isnan(run[metric]) for run in ours)
    }


def judged(ours: list[float], theirs: list[float], bound: float) -> dict[str, Any]:
    """Sets the means of two samples against each other."""
    mean = fmean(theirs)
    low, high, _ = welch(theirs, ours)
    difference = fmean(ours) / mean - 1.0
    return {
        "ours": fmean(ours),
        "ns2": mean,
        "difference": difference,
        "low": low / mean,
        "high": high / mean,
        "bound": bound,
        "kept": abs(difference) <= bound,
    }


def main() -> int:
    """Measures, prints, and returns the exit code."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description="Agreement of narrows with ns-2 in B1 and B2.")
    parser.add_argument("--seeds", type=int, default=3 if quick else 10)
    parser.add_argument("--case", action="append", metavar="SCENARIO/DISCIPLINE")
    options = parser.parse_args()
    if shutil.which("ns") is None:
        print("bench_agreement.py: ns-2 is not installed (apt-get install ns2)", file=sys.stderr)
        return 2
    known = [f"{name}/{discipline}" for name, several in CASES.items() for discipline in several]
    cases = options.case or known
    if unknown := [case for case in cases if case not in known]:
        parser.error(f"there is no case {unknown[0]} (choose from {', '.join(known)})")
    results: dict[str, dict[str, Any]] = {}
    rows = []
    for case in cases:
        name, discipline = case.split("/")
        measure.log(f"{case}: {options.seeds} seeds")
        try:
            results[case] = run_case(
                name, discipline, options.seeds, 20.0 if quick and name == "b1" else None
            )
        except measure.ChildError as error:
            print(f"bench_agreement.py: {error}", file=sys.stderr)
            return 1
        for metric, said in results[case].items():
            rows.append(
                [
                    f"{case} {metric}",
                    f"{said['ours']:.4g}",
                    f"{said['ns2']:.4g}",
                    f"{100 * said['difference']:+.1f} %",
                    f"{100 * said['low']:+.1f} to {100 * said['high']:+.1f} %",
                    f"{100 * said['bound']:.0f} %",
                    "yes" if said["kept"] else "no",
                ]
            )
    head = ["mean over seeds", "narrows", "ns-2", "difference", "95 % interval", "bound", "kept"]
    print(measure.table(head, rows))
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
