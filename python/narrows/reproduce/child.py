"""One run of a paper's cell as a separate process, which the runner starts to measure it.

    python -m narrows.reproduce.child SLUG SCENARIO SEED SETTINGS BACKEND

It prints the metrics that the paper measures as a JSON object, and with them `cpu_s` (the process's
processor time, including Python's start), `cpu_s_per_100_s` (the same for 100 simulated seconds),
`run_s` (wall-clock time from the plan to the tables) and `peak_mb` (its largest resident set, in
units of 10^6 bytes).
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from narrows import Scenario, run


def main(slug: str, path: str, seed: str, settings: str, backend: str) -> None:
    """Runs, measures and prints."""
    scenario = Scenario.load(path, set=json.loads(settings))
    started = time.perf_counter()
    result = run(scenario, seed=int(seed), backend=backend)
    run_s = time.perf_counter() - started
    if result.status != "complete":
        sys.exit(f"the run stopped early: {result.stopped}")
    # Measured before the import, so that only the memory that a run needs counts.
    used, peak_mb = resource.getrusage(resource.RUSAGE_SELF), _peak_mb()
    from narrows.reproduce import papers

    (paper,) = (paper for paper in papers() if paper.slug == slug)
    values = dict(paper.measure(result).values)
    values |= {
        "cpu_s": used.ru_utime + used.ru_stime,
        "cpu_s_per_100_s": 100.0 * (used.ru_utime + used.ru_stime) / result.end_s,
        "run_s": run_s,
        "peak_mb": peak_mb,
    }
    print(json.dumps(values))


def _peak_mb() -> float:
    """The largest resident set of this process so far, in units of 10^6 bytes.

    On Linux it does not come from getrusage(), which also counts the parent process; `VmHWM`
    (proc_pid_status(5)) starts again with the program.
    """
    status = Path("/proc/self/status")
    if status.exists():
        text = status.read_text("utf-8", "replace")
        lines = dict(line.split(":", 1) for line in text.splitlines())
        return int(lines["VmHWM"].removesuffix("kB")) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main(*sys.argv[1:])
