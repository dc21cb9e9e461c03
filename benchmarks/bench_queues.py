"""Cost of an operation of the per-flow disciplines: `make bench-queues`.

Each discipline is full, with four packets of each flow. Then, again and again, either a packet is
taken out and put in again, or one more packet is put in and another is dropped for it. Nanoseconds
are medians of interleaved runs. If callgrind is installed, it counts instructions, which no other
program disturbs. The last line of stdout is a JSON object.
"""

import json
import re
import shutil
import subprocess
import sys

import measure

QUEUES = ("pfifo", "drr", "tdrr", "qsdrr", "sfq", "fq-codel")
FLOWS = (10, 1000, 100_000)
ROUNDS = 3
STEPS = 1_000_000
COUNTED_STEPS = 50_000


def build() -> str:
    """Builds the program and returns its path."""
    target = measure.HERE.parent / "target" / "bench-queues"
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", str(target)]
    command += ["-p", "narrows-qdisc", "--example", "queues"]
    if subprocess.run(command, cwd=measure.HERE.parent).returncode != 0:
        raise measure.ChildError("crates/qdisc/examples/queues.rs does not build")
    return str(target / "release" / "examples" / "queues")


def instructions(program: str, queue: str, flows: int, passes: int, drops: int) -> int:
    """The instructions that callgrind counts in a whole run."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program]
    command += [queue, str(flows), str(passes), str(drops)]
    child = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", child.stderr)
    if child.returncode != 0 or not found:
        raise measure.ChildError(f"valgrind failed: {child.stderr[-200:]}")
    return int(found[1])


def counted(program: str, queue: str, flows: int) -> tuple[float, float]:
    """Instructions to take a packet out and put it in, and to put in one more with a drop."""
    none = instructions(program, queue, flows, 0, 0)
    passes = instructions(program, queue, flows, COUNTED_STEPS, 0) - none
    drops = instructions(program, queue, flows, 0, COUNTED_STEPS) - none
    return passes / COUNTED_STEPS, (drops - passes) / COUNTED_STEPS


def main() -> int:
    """Builds, runs, prints, and returns the exit code."""
    said: dict[tuple[str, int], list[dict[str, float]]] = {}
    counts: dict[tuple[str, int], tuple[float, float]] = {}
    has_valgrind = shutil.which("valgrind") is not None
    if not has_valgrind:
        measure.log("SKIP instructions: valgrind is not installed")
    cases = [(queue, flows) for queue in QUEUES for flows in FLOWS]
    try:
        program = build()
        for round_number in range(ROUNDS):
            for queue, flows in cases:
                command = [program, queue, str(flows), str(STEPS), str(STEPS)]
                said.setdefault((queue, flows), []).append(measure.run(command).said)
            measure.log(f"round {round_number + 1}")
        for queue, flows in cases if has_valgrind else []:
            counts[queue, flows] = counted(program, queue, flows)
            measure.log(f"counted {queue} with {flows} flows")
    except measure.ChildError as error:
        print(f"bench_queues.py: {error}", file=sys.stderr)
        return 1
    rows = []
    line: dict[str, dict[str, list[float]]] = {}
    for queue, flows in cases:
        runs = said[queue, flows]
        pass_ns = measure.median(run["pass_ns"] for run in runs)
        drop_ns = measure.median(run["drop_ns"] - run["pass_ns"] for run in runs)
        numbers = {"pass_ns": pass_ns, "drop_ns": drop_ns}
        if has_valgrind:
            numbers["pass_instructions"], numbers["drop_instructions"] = counts[queue, flows]
        for name, number in numbers.items():
            line.setdefault(queue, {}).setdefault(name, []).append(round(number, 1))
        rows.append([queue, f"{flows:,}", *(f"{number:.0f}" for number in numbers.values())])
    head = ["queue", "flows", "out and in: ns", "in with a drop: ns"]
    if has_valgrind:
        head += ["out and in: instructions", "in with a drop: instructions"]
    print(measure.table(head, rows))
    print(json.dumps({"flows": list(FLOWS), **line}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
