"""A sweep of 1000 small runs on two workers against one: `make bench-sweep`.

Each sweep is a process of its own, timed from its start to its end: interpreter, imports, plan,
worker processes, runs, the sweep folder and its table. A run takes some 40 ms. Starting takes a
second, of which a worker's start is half, so shorter or fewer runs (QUICK=1: 200 of them, once)
give smaller ratios. Rounds are interleaved.

Wall-clock time needs an otherwise idle machine with two cores. On a shared machine, CPU time says
more. The *CPU-bound ratio* is what the wall-clock ratio would be if two cores did nothing else and
the runs were shared out evenly. It follows from the CPU time that the processes used:

    main before and after the runs + start of a worker
    + max(workers' runs / workers, (workers' runs + main meanwhile) / 2)

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
    "duration": "30 s",
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
    """Runs one sweep in this process; returns the CPU time that each process used."""
    import psutil

    import narrows

    me = psutil.Process()
    started: dict[int, float] = {}
    loop: list[float] = []

    def progress(at: Any) -> None:
        loop[1:] = [time.process_time()] if loop else []
        if not loop:
            loop.append(time.process_time())
        if len(started) < workers or at.done == 0:
            # A worker's start is the CPU time that it has used when the first row comes.
            for worker in me.children():
                times = worker.cpu_times()
                if at.done == 0 or worker.pid not in started:
                    started[worker.pid] = times.user + times.system

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
    start_s = sum(started.values()) / len(started)
    runs_s = children.ru_utime + children.ru_stime - sum(started.values())
    return {
        "main_s": main_s,
        "start_s": start_s,
        "runs_s": runs_s,
        "bound_s": main_s
        - meanwhile_s
        + start_s
        + max(runs_s / workers, (runs_s + meanwhile_s) / CORES),
    }


def main() -> int:
    """Measures, prints, and returns the exit code."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description="Sweeps on two workers against one.")
    parser.add_argument("--runs", type=int, default=200 if quick else 1000)
    parser.add_argument("--rounds", type=int, default=1 if quick else 3)
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
        metrics = {
            "wall_s": measure.median(outcome.wall_s for outcome in of_workers),
            "cpu_s": measure.median(outcome.cpu_s for outcome in of_workers),
            **{
                key: measure.median(outcome.said[key] for outcome in of_workers)
                for key in ("main_s", "start_s", "runs_s", "bound_s")
            },
        }
        line[f"workers_{workers}"] = {key: round(value, 3) for key, value in metrics.items()}
        rows.append([str(workers), *(f"{value:.2f}" for value in metrics.values())])
    head = ["workers", "wall s", "CPU s", "main", "a worker's start", "all runs", "CPU-bound s"]
    print(measure.table(head, rows))
    one, two = (line[f"workers_{workers}"] for workers in WORKERS)
    walls = [a.wall_s / b.wall_s for a, b in zip(outcomes[1], outcomes[2], strict=True)]
    line["ratio"] = round(measure.median(walls), 3)
    line["ratio_cpu_bound"] = round(one["bound_s"] / two["bound_s"], 3)
    line["runs_per_s"] = round(options.runs / two["wall_s"], 1)
    line["ms_per_run"] = round(1000 * one["runs_s"] / options.runs, 2)
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
