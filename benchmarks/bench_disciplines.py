"""What each discipline costs in scenario B1, against Drop Tail: `make bench-disciplines`.

`crates/sim/examples/b1.rs` runs B1 (500 on-off sources, 500 Mbit/s) with the discipline at the
bottleneck: the simulator alone, without Python. The number is CPU time for each packet that the
bottleneck sends, as the median of interleaved runs. Other programs disturb CPU time less than
wall-clock time, and disciplines that drop more send less. QUICK=1: three rounds of 10 s instead of
seven of 30 s. The last line of stdout is a JSON object.
"""

import json
import os
import subprocess
import sys

import measure

BOUNDS: dict[str, float | None] = {
    "red": 1.5,
    "blue": 1.5,
    "pie": 1.5,
    "codel": 2.5,
    "fq-codel": 2.5,
    "fq-pie": 1.6,
    "cake": 2.5,
    "dualpi2": 1.6,
    "fq": 1.6,
    "drr": 2.5,
    "tdrr": 2.5,
    "qsdrr": 2.5,
    "sfq": None,
}
"""How much a packet may cost, as a multiple of its cost with Drop Tail; None: no bound."""

BASE = "droptail"
QUICK = os.environ.get("QUICK", "") not in ("", "0")
ROUNDS = 3 if QUICK else 7
SECONDS = 10 if QUICK else 30


def build() -> str:
    """Builds the program and returns its path."""
    target = measure.HERE.parent / "target" / "bench-disciplines"
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(target)]
    command += ["-p", "narrows-sim", "--example", "b1"]
    if subprocess.run(command, cwd=measure.HERE.parent).returncode != 0:
        raise measure.ChildError("crates/sim/examples/b1.rs does not build")
    return str(target / "release" / "examples" / "b1")


def main() -> int:
    """Builds, runs, prints, and returns the exit code."""
    found: dict[str, list[float]] = {name: [] for name in (BASE, *BOUNDS)}
    drops: dict[str, float] = {}
    try:
        program = build()
        for number in range(ROUNDS):
            for name, costs in found.items():
                outcome = measure.run([program, name, str(SECONDS)])
                costs.append(1e9 * outcome.cpu_s / outcome.said["packets"])
                drops[name] = outcome.said["drops"]
            measure.log(f"round {number + 1} of {ROUNDS}")
    except measure.ChildError as error:
        print(f"bench_disciplines.py: {error}", file=sys.stderr)
        return 1
    costs_ns = {name: measure.median(costs) for name, costs in found.items()}
    ratios = {name: costs_ns[name] / costs_ns[BASE] for name in BOUNDS}
    rows = [[BASE, f"{costs_ns[BASE]:.0f}", f"{drops[BASE]:,.0f}", "1.00", "-", "-"]]
    for name, bound in BOUNDS.items():
        numbers = [f"{costs_ns[name]:.0f}", f"{drops[name]:,.0f}", f"{ratios[name]:.2f}"]
        kept = ["-", "-"]
        if bound is not None:
            kept = [f"{bound:.1f}", "yes" if ratios[name] <= bound else "no"]
        rows.append([name, *numbers, *kept])
    head = ["queue", "ns a packet", "drops", "ratio", "at most", "kept"]
    print(measure.table(head, rows))
    print(json.dumps({"ratios": {name: round(ratio, 3) for name, ratio in ratios.items()}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
