"""From keystroke to picture: what starting narrows costs, compared with an earlier revision.

    make bench-start REVISION=b548df40       (QUICK=1: three rounds instead of ten)

Both revisions are exported to target/bench-start and built with the same profile. Every row is
measured in processor seconds, in processes of their own, the old revision and the new one in turn.
So a busy machine slows both, and the ratio counts. It is the median of the rounds' ratios. The rows
`import` are what the others pay before they begin. The last line of stdout is a JSON object.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import measure

ROOT = Path(__file__).parents[1]
BUILDS = ROOT / "target" / "bench-start"
EXAMPLE = str(ROOT / "scenarios" / "dns-behind-red.toml")
SWEEP_RUNS = 200

IN_PYTHON = """
import json, sys, time
from narrows import Scenario, _core, run
plan = json.dumps(Scenario.load(sys.argv[1]).plan())
def engine():
    simulation = _core.Simulation(plan)
    while not simulation.advance(1_000_000):
        pass
def took(function):
    before = time.process_time()
    function()
    return time.process_time() - before
whole = lambda: run(sys.argv[1]).summary
took(whole), took(engine)
print(min(took(whole) for _ in range(7)) - min(took(engine) for _ in range(7)))
"""
"""Prints the processor seconds that `run` takes beyond the engine's."""


class Row(NamedTuple):
    """Something that is measured."""

    name: str
    arguments: Sequence[str]
    """What follows the interpreter; `{out}` is a folder that does not exist yet."""
    says: bool = False
    """Whether the last line of its output is the result, and not its processor time."""
    runs: int = 1
    """By what the processor time is divided."""


ROWS = (
    Row("narrows check", ("-m", "narrows", "check", EXAMPLE)),
    Row("narrows run", ("-m", "narrows", "run", EXAMPLE, "--out", "{out}")),
    Row(
        "narrows run --no-report",
        ("-m", "narrows", "run", EXAMPLE, "--no-report", "--out", "{out}"),
    ),
    Row("run() beyond the engine", ("-c", IN_PYTHON, EXAMPLE), says=True),
    Row(
        "a run of bench-sweep",
        (
            str(ROOT / "benchmarks" / "bench_sweep.py"),
            *("--child", "1", "--runs", str(SWEEP_RUNS)),
        ),
        runs=SWEEP_RUNS,
    ),
    Row("import pydantic, typer", ("-c", "import typer, pydantic; pydantic.BaseModel")),
    Row("import narrows.scenario", ("-c", "import narrows.scenario")),
    Row("import narrows.results", ("-c", "import narrows.results")),
    Row("import narrows.report", ("-c", "import narrows.report")),
)


def export(revision: str | None, folder: Path) -> None:
    """Copies the sources of a revision, or of the working tree, to a folder."""
    tree = revision
    if tree is None:
        # A commit of the working tree that no branch has; empty if nothing has changed.
        tree = _git("stash", "create") or "HEAD"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", tree], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build(folder: Path, profile: str) -> None:
    """Builds the extension of exported sources, and compiles their Python files."""
    measure.log(f"building {folder.name}")
    command = ["cargo", "build", "-q", "--locked", "-p", "narrows-python", "--lib"]
    command += ["--features", "extension-module", "--profile", profile]
    target = BUILDS / "target"
    environment = {**os.environ, "PYO3_PYTHON": sys.executable, "CARGO_TARGET_DIR": str(target)}
    subprocess.run(command, cwd=folder, env=environment, check=True)
    library = (target / profile / "lib_core.so").read_bytes()
    (folder / "python" / "narrows" / "_core.abi3.so").write_bytes(library)
    compileall.compile_dir(str(folder / "python"), quiet=1)


def cost(row: Row, folder: Path) -> float:
    """The processor seconds of a row with exported sources.

    Raises:
        SystemExit: The process failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder / "python")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="bench-start-") as empty:
        out = str(Path(empty) / "run")
        command = [sys.executable, *(word.replace("{out}", out) for word in row.arguments)]
        with tempfile.TemporaryFile("w+") as said:
            child = subprocess.Popen(
                command, env=environment, stdout=said, stderr=subprocess.DEVNULL
            )
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                raise SystemExit(f"{row.name} failed with {folder.name}")
            said.seek(0)
            if row.says:
                return float(said.read().split()[-1])
    return (used.ru_utime + used.ru_stime) / row.runs


def main() -> int:
    """Measures, prints, and returns the exit code."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description="What starting narrows costs.")
    parser.add_argument("revision", help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=3 if quick else 10)
    parser.add_argument("--profile", default="release", help="of Cargo.toml, for both")
    options = parser.parse_args()
    old, new = BUILDS / _git("rev-parse", "--short", options.revision), BUILDS / "new"
    for revision, folder in ((options.revision, old), (None, new)):
        export(revision, folder)
        build(folder, options.profile)
    found: dict[str, list[tuple[float, float]]] = {row.name: [] for row in ROWS}
    for number in range(options.rounds):
        for row in ROWS:
            found[row.name].append((cost(row, old), cost(row, new)))
        measure.log(f"round {number + 1} of {options.rounds}")
    line, table = {}, []
    for name, pairs in found.items():
        before, after = (measure.median(pair[which] for pair in pairs) for which in (0, 1))
        ratio = measure.median(after / before for before, after in pairs)
        line[name] = {"old_s": round(before, 4), "new_s": round(after, 4), "ratio": round(ratio, 3)}
        table.append([name, f"{before:.3f}", f"{after:.3f}", f"{ratio:.2f}"])
    print(measure.table(["processor seconds", options.revision, "now", "ratio"], table))
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
