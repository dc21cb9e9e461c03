"""How long a run on a kernel takes: `make bench-kernel`.

`--backend kernel` in a guest in virtual time (docs/kernel-backend.md) has two targets: setting up
and booting take less than 3 s, and 30 s of a 10 Mbit/s bottleneck take 30 s at most.

- *set-up* is a run of a tenth of a second: the design, the guest's boot, its namespaces,
  devices and queues, the agent, the run folder's tables, and that everything is removed;
- *run* is `scenarios/dns-behind-red.toml` for 30 s, and *simulated* is the same in the simulator.

Rounds are interleaved, and each run is a process of its own: the interpreter's start counts.
Wall-clock times need a quiet machine: the load before each run is printed, and a busy machine is
named. Processor time, of the guest and of all else, is there in any case.
The last line of stdout is a JSON object. QUICK=1: one round. Needs `narrows kernel prepare`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = Path(__file__).parent.parent / "scenarios" / "dns-behind-red.toml"
BACKEND = "kernel-virtual"
LENGTH_S = 30.0
MOST_SETUP_S = 3.0
BUSY = 0.5
"""Processes that want to run before ours starts; with more of them, the machine is not quiet."""

RUNS = {
    "set-up": (BACKEND, "0.1 s"),
    "run": (BACKEND, f"{LENGTH_S:g} s"),
    "simulated": ("sim", f"{LENGTH_S:g} s"),
}


def timed(backend: str, duration: str) -> tuple[float, float]:
    """Wall-clock and processor time of one run with all its processes, in seconds.

    Raises:
        SystemExit: The run failed; the text is its output.
    """
    command = [sys.executable, "-m", "narrows", "run", str(SCENARIO), "--json", "--quiet"]
    command += [
        "--backend",
        backend,
        "--set",
        f"duration={duration}",
        "--set",
        "dns.stubs.start=0 s",
    ]
    with tempfile.TemporaryDirectory() as folder:
        before, started = os.times(), time.perf_counter()
        done = subprocess.run(
            [*command, "--out", f"{folder}/run"], capture_output=True, text=True, check=False
        )
        wall, after = time.perf_counter() - started, os.times()
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip() or f"narrows run: exit code {done.returncode}")
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def main() -> None:
    """Runs the rounds, and prints medians."""
    rounds = 1 if os.environ.get("QUICK") else 5
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in RUNS}
    loads = []
    for number in range(1, rounds + 1):
        for name, (backend, duration) in RUNS.items():
            loads.append(waiting())
            wall, cpu = timed(backend, duration)
            found[name].append((wall, cpu))
            print(
                f"round {number}, {name}: {wall:.2f} s, {cpu:.2f} s of processor time, "
                f"{loads[-1]} other processes wanted to run",
                flush=True,
            )
    medians = {
        name: {
            "wall_s": statistics.median(wall for wall, _ in times),
            "cpu_s": statistics.median(cpu for _, cpu in times),
        }
        for name, times in found.items()
    }
    quiet = statistics.median(loads) <= BUSY
    if not quiet:
        print("the machine is busy: wall-clock times say nothing, processor times do")
    result = {
        "rounds": rounds,
        "quiet": quiet,
        "cores": os.cpu_count(),
        **medians,
        "setup_below_3_s": medians["set-up"]["wall_s"] < MOST_SETUP_S,
        "run_at_most_its_duration": medians["run"]["wall_s"] <= LENGTH_S,
    }
    print(json.dumps(result))


def waiting() -> int:
    """Processes of the machine that want to run, except this one (/proc/loadavg)."""
    running = Path("/proc/loadavg").read_text().split()[3].split("/")[0]
    return max(0, int(running) - 1)


if __name__ == "__main__":
    main()
