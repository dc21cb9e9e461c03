"""A sweep of 1000 small runs on two workers against one: `make bench-sweep`.

Each sweep is a process of its own, timed from its start to its end: interpreter, imports, plan,
worker processes, runs, the sweep folder and its table. Rounds are interleaved. QUICK=1 makes 200
runs, once; starting takes a larger part of these.

Wall-clock time needs an otherwise idle machine with two cores. On a shared one, CPU time says more:
the *CPU-bound ratio* is what the wall-clock ratio would be if every process had a core of two to
itself whenever it could use it. It is computed from what each process was measured to use:

    serial part of the main process + max(busiest worker, (all workers + main meanwhile) / 2)

The last line of stdout is a JSON object.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measure

HERE = Path(__file__).parent
WORKERS = (1, 2)
CORES = 2
COMBINATIONS = 50

SCENARIO: dict[str, Any] = {
    "name": "small-runs",
    "duration": "3 s",
    "links": [
        {
            "name": "bottleneck",
            "between": ["west", "east"],
            "rate": "50 Mbit/s",
            "delay": "20 ms",
            "forward": {"queue": {"kind": "pfifo", "limit": 100}},
        }
    ],
    "traffic": [
        {
            "kind": "on-off",
            "name": "web",
            "sender": "west",
            "receiver": "east",
            "connections": 50,
            "burst": "150 kB",
            "idle_mean": "500 ms",
            "spread": "500 ms",
            "stagger": "random",
        }
    ],
    "monitor": {
        "queues": {"links": ["bottleneck.forward"], "rate": 10},
        "links": {"links": ["bottleneck.forward"], "rate": 2},
    },
}


def child(runs: int, workers: int) -> dict[str, Any]:
    """One sweep, in this process; what each process used."""
    import psutil

    import narrows

    me = psutil.Process()
    used: dict[int, float] = {}
    loop: list[float] = []
    sampled_at = 0.0

    def progress(at: Any) -> None:
        nonlocal sampled_at
        if at.label:
            return  # the combinations are still being checked
        loop[1:] = [time.process_time()] if loop else []
        if not loop:
            loop.append(time.process_time())
        if time.monotonic() - sampled_at > 0.1 or at.done >= at.total:
            sampled_at = time.monotonic()
            for worker in me.children():
                try:
                    times = worker.cpu_times()
                except psutil.Error:
                    continue
                used[worker.pid] = times.user + times.system

    with tempfile.TemporaryDirectory() as folder:
        found = narrows.sweep(
            SCENARIO,
            vary={"queue.limit": range(50, 50 + 4 * COMBINATIONS, 4)},
            seeds=runs // COMBINATIONS,
            out=Path(folder) / "sweep",
            workers=workers,
            progress=progress,
        )
    assert found.complete
    main_s = time.process_time()
    meanwhile_s = loop[-1] - loop[0]
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "runs": found.total,
        "events": sum(run.events or 0 for run in found.runs),
        "main_s": main_s,
        "workers_s": children.ru_utime + children.ru_stime,
        "busiest_s": max(used.values()),
        "bound_s": main_s
        - meanwhile_s
        + max(max(used.values()), (sum(used.values()) + meanwhile_s) / CORES),
    }


def main() -> int:
    """Measures, prints, and gives the exit code."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description="Sweeps on two workers against one.")
    parser.add_argument("--runs", type=int, default=200 if quick else 1000)
    parser.add_argument("--rounds", type=int, default=1 if quick else 5)
    parser.add_argument("--child", type=int)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.runs, options.child)))
        return 0
    outcomes: dict[int, list[measure.Outcome]] = {workers: [] for workers in WORKERS}
    try:
        for number in range(options.rounds):
            for workers in WORKERS:
                command = [sys.executable, str(HERE / "bench_sweep.py"), "--child", str(workers)]
                outcome = measure.run([*command, "--runs", str(options.runs)])
                outcomes[workers].append(outcome)
                measure.log(
                    f"round {number + 1}  {workers} workers  {outcome.wall_s:6.2f} s, "
                    f"{outcome.cpu_s:6.2f} s of CPU"
                )
    except measure.ChildError as error:
        print(f"bench_sweep.py: {error}", file=sys.stderr)
        return 1
    line: dict[str, Any] = {"runs": options.runs}
    rows = []
    for workers, of_workers in outcomes.items():
        figures = {
            "wall_s": measure.median(outcome.wall_s for outcome in of_workers),
            "cpu_s": measure.median(outcome.cpu_s for outcome in of_workers),
            **{
                key: measure.median(outcome.said[key] for outcome in of_workers)
                for key in ("main_s", "busiest_s", "bound_s")
            },
        }
        line[f"workers_{workers}"] = {key: round(value, 3) for key, value in figures.items()}
        rows.append([str(workers), *(f"{value:.2f}" for value in figures.values())])
    head = ["workers", "wall s", "CPU s", "main's CPU s", "busiest worker's CPU s", "CPU-bound s"]
    print(measure.table(head, rows))
    one, two = (line[f"workers_{workers}"] for workers in WORKERS)
    walls = [a.wall_s / b.wall_s for a, b in zip(outcomes[1], outcomes[2], strict=True)]
    line["ratio"] = round(measure.median(walls), 3)
    line["ratio_cpu_bound"] = round(one["bound_s"] / two["bound_s"], 3)
    line["runs_per_s"] = round(options.runs / two["wall_s"], 1)
    line["ms_per_run"] = round(1000 * one["busiest_s"] / options.runs, 2)
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
