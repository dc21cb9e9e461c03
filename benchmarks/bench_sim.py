"""Speed and agreement of narrows, ns-2 and ns-3 in scenario B1: `make bench-sim`.

Runs are interleaved (narrows, ns-2, ns-3, narrows, ...), each in a process of its own; every metric
is a median. QUICK=1 simulates 20 s instead of 100 s, with one run of ns-3 for each discipline.
The last line of stdout is a JSON object with, for each discipline,

- `ratio_ns3`, `ratio_ns2`: the wall time that the peer's process takes (set-up and simulation),
  divided by the time that narrows takes from the scenario file to the tables. Python's own start
  and the import of packages, which a notebook pays once, do not count;
- `process_ratio_ns3`, `process_ratio_ns2`: the same for the whole processes, Python's start and
  imports included;
- `run_ratio_ns3`, `run_ratio_ns2`: the same for the runs alone: the peer's simulation without its
  set-up, divided by narrows' time from the plan to the tables;
- `packets_per_s`: packets that left the bottleneck, divided by the wall time of narrows' run from
  the plan to the tables;
- `peak_mb`: peak memory of narrows' process, interpreter and packages included.

A peer that is not installed is skipped, and its ratios are null.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import measure
from measure import HERE, Outcome

INSTALL = "apt-get install ns2 ns3 libns3-dev g++"
NS3_MODULES = (
    "core",
    "network",
    "internet",
    "point-to-point",
    "traffic-control",
    "nix-vector-routing",
)
PEERS = {"ns3": "ns-3", "ns2": "ns-2"}
NAMES = {"droptail": "Drop Tail", "red": "RED"}
RESULTS = {
    "goodput_mbps": ("goodput Mb/s", "{:.1f}"),
    "completion_s": ("burst s", "{:.3f}"),
    "bursts": ("bursts", "{:.0f}"),
    "drops": ("drops", "{:.0f}"),
    "utilisation": ("utilisation", "{:.4f}"),
    "backlog_packets": ("backlog", "{:.0f}"),
}

Runs = dict[tuple[str, str], list[Outcome]]
"""What each run took and printed, by engine and discipline."""


def ns3_program(folder: Path) -> Path | None:
    """Compiles the scenario's program for ns-3; None without ns-3 or a compiler."""
    header = Path("/usr/include/ns3/core-module.h")
    if not header.exists() or shutil.which("g++") is None:
        return None
    program = folder / "b1-ns3"
    libraries = [f"-lns3-{module}" for module in NS3_MODULES]
    source = HERE / "ns3" / "b1.cc"
    measure.log("compiling benchmarks/ns3/b1.cc")
    command = ["g++", "-O2", "-std=c++17", "-o", str(program), str(source), *libraries]
    if subprocess.run(command).returncode != 0:
        return None
    return program


def version(package: str) -> str:
    """A Debian package's version, or nothing."""
    if shutil.which("dpkg-query") is None:
        return ""
    command = ["dpkg-query", "--show", "--showformat=${Version}", package]
    return subprocess.run(command, capture_output=True, text=True).stdout


def run_all(
    seconds: float, disciplines: list[str], rounds: dict[str, int], ns3: Path | None
) -> Runs:
    """Runs every engine that has rounds left, in turn, until all rounds are done."""
    parameters = measure.narrows("parameters", str(seconds)).said
    runs: Runs = defaultdict(list)
    for number in range(max(rounds.values())):
        for discipline in disciplines:
            for engine, count in rounds.items():
                if number >= count:
                    continue
                given = parameters[discipline]
                if engine == "narrows":
                    outcome = measure.narrows("run", discipline, str(seconds))
                elif engine == "narrows.run":
                    outcome = measure.narrows("folder", discipline, str(seconds))
                elif engine == "ns-2":
                    outcome = measure.run(
                        ["ns", str(HERE / "ns2" / "dumbbell.tcl"), *given["ns-2"]]
                    )
                else:
                    words = [f"--{key}={value}" for key, value in given["ns-3"].items()]
                    outcome = measure.run([str(ns3), *words])
                runs[engine, discipline].append(outcome)
                what = f"round {number + 1}  {NAMES[discipline]:9}  {engine:11}"
                measure.log(f"{what}  {outcome.wall_s:8.2f} s")
    return runs


def median_of(outcomes: list[Outcome], key: str) -> float:
    """The median of a metric that the runs printed."""
    return measure.median(outcome.said[key] for outcome in outcomes)


def job(outcomes: list[Outcome]) -> float:
    """The median time of narrows from the scenario file to the tables, in seconds."""
    return measure.median(o.said["load_s"] + o.said["run_s"] for o in outcomes)


def whole(outcomes: list[Outcome]) -> float:
    """The median wall time of the whole process, in seconds."""
    return measure.median(outcome.wall_s for outcome in outcomes)


def peak(outcomes: list[Outcome]) -> float:
    """The median of the processes' peak memory, in MB."""
    return measure.median(outcome.peak_mb for outcome in outcomes)


def report(runs: Runs, disciplines: list[str], seconds: float) -> None:
    """Prints times, memory and results side by side."""
    for discipline in disciplines:
        engines = [e for e in ("narrows", "ns-2", "ns-3") if runs.get((e, discipline))]
        print(f"\n{NAMES[discipline]}, {seconds:g} s simulated: medians of interleaved runs\n")
        base = runs["narrows", discipline]
        rows = []
        for engine in engines:
            outcomes = runs[engine, discipline]
            process, inner = whole(outcomes), median_of(outcomes, "run_s")
            packets = median_of(outcomes, "packets")
            rows.append(
                [
                    engine,
                    str(len(outcomes)),
                    f"{process:.2f}",
                    f"{measure.median(o.cpu_s for o in outcomes):.2f}",
                    f"{process - inner:.2f}",
                    f"{inner:.3f}",
                    f"{packets / inner:,.0f}",
                    f"{packets / process:,.0f}",
                    f"{peak(outcomes):.0f}",
                    f"{(job(base) if engine == 'narrows' else process) / job(base):.1f}",
                    f"{process / whole(base):.1f}",
                    f"{inner / median_of(base, 'run_s'):.1f}",
                ]
            )
        head = ["engine", "runs", "process s", "CPU s", "set-up s", "run s", "packets/s of run"]
        head += ["of process", "peak MB", "ratio", "process ratio", "run ratio"]
        print(measure.table(head, rows))
        parts = ", ".join(
            f"{name} {median_of(base, key):.3f} s"
            for key, name in [
                ("import_s", "imports"),
                ("load_s", "scenario to plan"),
                ("engine_s", "engine alone"),
                ("run_s", "plan to tables"),
            ]
        )
        print(f"\n  narrows' parts: {parts}; {median_of(base, 'events'):,.0f} events")
        folder = runs.get(("narrows.run", discipline))
        if folder:
            print(
                f"  with the run folder written (narrows.run): {median_of(folder, 'run_s'):.2f} s, "
                f"process {whole(folder):.2f} s, peak {peak(folder):.0f} MB"
            )
        print()
        rows = [
            [engine]
            + [
                form.format(median_of(runs[engine, discipline], key))
                for key, (_, form) in RESULTS.items()
            ]
            for engine in engines
        ]
        print(measure.table(["results", *(title for title, _ in RESULTS.values())], rows))


def metrics(runs: Runs, disciplines: list[str]) -> dict[str, dict[str, float | None]]:
    """The numbers of the last line of output."""
    result: dict[str, dict[str, float | None]] = {}
    for discipline in disciplines:
        base = runs["narrows", discipline]

        peers = {name: runs.get((engine, discipline)) for name, engine in PEERS.items()}
        ratios = {
            f"{kind}_{name}": round(whole(peer) / time_s, 2) if peer else None
            for kind, time_s in [("ratio", job(base)), ("process_ratio", whole(base))]
            for name, peer in peers.items()
        }
        run_s = median_of(base, "run_s")
        run_ratios = {
            f"run_ratio_{name}": round(median_of(peer, "run_s") / run_s, 2) if peer else None
            for name, peer in peers.items()
        }
        result[discipline] = {
            **ratios,
            **run_ratios,
            "packets_per_s": round(median_of(base, "packets") / median_of(base, "run_s")),
            "peak_mb": round(peak(base), 1),
        }
    return result


def main() -> int:
    """Measures, prints, and returns the exit code."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description="Scenario B1 in narrows, ns-2 and ns-3.")
    parser.add_argument("--seconds", type=float, default=20 if quick else 100)
    parser.add_argument("--rounds", type=int, default=3, help="of narrows and ns-2")
    parser.add_argument("--ns2-rounds", type=int, help="as --rounds unless given")
    parser.add_argument("--ns3-rounds", type=int, help="likewise; 1 with QUICK=1")
    parser.add_argument("--discipline", choices=[*NAMES], help="one of the two only")
    options = parser.parse_args()
    disciplines = [options.discipline] if options.discipline else [*NAMES]

    with tempfile.TemporaryDirectory(prefix="narrows-bench-") as folder:
        rounds = {"narrows": options.rounds}
        peers = []
        wanted = options.rounds if options.ns2_rounds is None else options.ns2_rounds
        if shutil.which("ns") is None:
            print(f"SKIP ns-2: not installed ({INSTALL})")
        elif wanted:
            rounds["ns-2"] = wanted
            peers.append(f"ns-2 {version('ns2')}")
        wanted = options.ns3_rounds
        if wanted is None:
            wanted = 1 if quick else options.rounds
        ns3 = ns3_program(Path(folder)) if wanted else None
        if ns3 is not None:
            rounds["ns-3"] = wanted
            peers.append(f"ns-3 {version('libns3-dev')}")
        elif wanted:
            print(f"SKIP ns-3: not installed ({INSTALL})")
        rounds["narrows.run"] = options.rounds
        try:
            runs = run_all(options.seconds, disciplines, rounds, ns3)
        except measure.ChildError as error:
            print(f"bench_sim.py: {error}", file=sys.stderr)
            return 1
    print(f"narrows against {', '.join(peers) or 'nobody'}; {os.cpu_count()} processors")
    report(runs, disciplines, options.seconds)
    print()
    print(json.dumps(metrics(runs, disciplines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
