"""Draws mutants of an area, runs the nearest tests on each, and says how many the tests kill.

A mutant is the source with one small change. The tests should notice it, unless it changes only
speed or words. Those of Rust are cargo-mutants'; python_mutants.py makes those of Python.

Everything happens in a copy of the checkout, target/mutants/AREA/tree, with a build of its own.
Each outcome is a line of target/mutants/AREA/outcomes.jsonl, so a run goes on where it was stopped.
A mutant's key does not depend on line numbers, and a draw takes the keys with the lowest hashes: a
change of the code changes only the part of a draw that it touches.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from python_mutants import mutated
from woven_mutants import VARIABLE, Spot, spot, weave_all

from narrows.results.intervals import wilson

ROOT = Path(__file__).parents[1]
HOME = ROOT / "target" / "mutants"
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.toml")


@dataclass(frozen=True)
class Part:
    """Files of an area, and the tests that should kill their mutants."""

    files: tuple[str, ...]
    """Patterns of paths."""
    tests: tuple[str, ...]
    """Arguments for pytest or `cargo test`, the nearest tests first: later ones run only if the
    mutant survives the earlier ones, and after the earlier ones of all mutants."""
    without: str = "^$"
    """A pattern of the paths and functions that are left out."""


_ASIDE = r"\b(Debug|Display|Prefetch) for |::prefetch(_for_push)?\b"
"""What only prints, or reads memory ahead of time."""

_RATIO = "python/narrows/ratio tests/ratio/test_comparison.py tests/ratio/test_analysis.py"

AREAS: dict[str, tuple[Part, ...]] = {
    "qdisc": (
        Part(
            ("crates/qdisc/src/**/*.rs",),
            ("-p narrows-qdisc --lib", "-p narrows-sim --test all -- aqm:: fair_queues::"),
            # What tests use.
            rf"src/(laws|traffic)\b|{_ASIDE}",
        ),
    ),
    "tcp": (
        Part(
            (
                "crates/transport/src/tcp/**/*.rs",
                "crates/transport/src/quic/{recovery,congestion,space,ranges}.rs",
                "crates/transport/src/quic/endpoint/{acks,timers}.rs",
            ),
            (
                "-p narrows-transport --lib",
                # The laws take a hundred times as long as all others.
                "-p narrows-transport --test all -- --skip tcp_laws::",
                "-p narrows-transport --test all -- tcp_laws::",
                "-p narrows-oracle -p narrows-sim --tests",
            ),
            _ASIDE,
        ),
    ),
    "agenda": (
        Part(
            (
                "crates/sim/src/agenda/*.rs",
                "crates/sim/src/link/**/*.rs",
                "crates/link/src/**/*.rs",
            ),
            ("-p narrows-link -p narrows-sim --lib", "-p narrows-sim --tests"),
            _ASIDE,
        ),
    ),
    "python": (
        Part(
            ("python/narrows/results/intervals.py", "python/narrows/results/student.py"),
            (
                "python/narrows/results/intervals.py python/narrows/results/student.py "
                "tests/results/test_intervals.py tests/results/test_student.py "
                "tests/results/test_summary.py",
            ),
        ),
        Part(
            tuple(
                f"python/narrows/probe/{name}.py" for name in ("verdict", "evidence", "whole_ratio")
            ),
            ("tests/probe/test_thresholds.py tests/probe/test_verdict.py",),
        ),
        Part(
            tuple(
                f"python/narrows/ratio/{name}.py"
                for name in ("density", "peaks", "regression", "resampling")
            ),
            ("tests/ratio/test_shapes.py tests/ratio/test_bounds.py", _RATIO),
        ),
        Part(
            tuple(
                f"python/narrows/ratio/{name}.py"
                for name in ("analysis", "comparison", "failures", "folder", "pairs")
            ),
            ("tests/ratio/test_pairs.py tests/ratio/test_bounds.py", _RATIO),
        ),
        Part(
            ("python/narrows/scenario/lowering.py", "python/narrows/scenario/planner.py"),
            ("tests/scenario/test_lowering.py", "tests/scenario"),
        ),
    ),
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    part: Part
    file: str
    where: str
    """Its function, or what it does."""
    diff: str
    key: str
    spot: Spot | None
    """Where it can be put into a program with others."""


def draw(found: Sequence[Mutant], seed: int, count: int) -> list[Mutant]:
    """A random draw, in random order."""

    def lot(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed}/{mutant.key}".encode()).digest()

    return sorted(found, key=lot)[:count]


class Copy:
    """The copy of the checkout in which an area's mutants are tested."""

    def __init__(self, area: str) -> None:
        self.parts = AREAS[area]
        self.home = HOME / area
        self.tree = self.home / "tree"
        self.environment = {
            **os.environ,
            "PATH": f"{HOME / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.tree / "python"),
            "CARGO_TARGET_DIR": str(self.home / "build"),
            # Nobody debugs a mutant.
            "CARGO_PROFILE_DEV_DEBUG": "none",
        }
        self._baselines: dict[str, float] = {}
        self._programs: dict[str, list[tuple[Path, str]]] = {}
        """The programs of woven tests, each with the folder of its crate."""

    def refresh(self) -> None:
        """Makes it like the checkout; files that are alike keep their times, for cargo."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        sources = [ROOT / name for name in listed.stdout.split("\0") if name]
        sources += ROOT.glob("python/narrows/_core*.so")
        wanted = {self.tree / path.relative_to(ROOT): path for path in sources if path.is_file()}
        for target in self.tree.rglob("*"):
            if target.is_file() and target not in wanted:
                target.unlink()
        for target, source in wanted.items():
            if not (target.is_file() and target.read_bytes() == source.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def mutants(self) -> list[Mutant]:
        """All mutants of the area."""
        found = []
        seen: Counter[str] = Counter()
        for part in self.parts:
            for file, where, diff, at in self._changes(part):
                if re.search(part.without, f"{file} {where}"):
                    continue
                body = "".join(line for line in diff.splitlines(True) if not line.startswith("@@"))
                # Two equal changes are told apart by their order.
                seen[body] += 1
                key = hashlib.sha256(f"{file}\n{body}\n{seen[body]}".encode()).hexdigest()[:16]
                found.append(Mutant(part, file, where, diff, key, at))
        return found

    def _changes(self, part: Part) -> Iterator[tuple[str, str, str, Spot | None]]:
        """The file, the function, the diff and the spot of each mutant."""
        if part.files[0].endswith(".py"):
            for file in part.files:
                source = (self.tree / file).read_text(encoding="utf-8")
                for where, text in mutated(source):
                    lines = (each.splitlines(keepends=True) for each in (source, text))
                    yield file, where, "".join(difflib.unified_diff(*lines, file, file)), None
            return
        command = ["cargo", "mutants", "--list", "--json", "--no-config", "--dir", str(self.tree)]
        command += [word for file in part.files for word in ("--file", file)]
        listed = subprocess.run(
            command, check=True, capture_output=True, env=self.environment, text=True
        )
        for found in json.loads(listed.stdout):
            # The name is "FILE:LINE:COLUMN: replace ...".
            source = (self.tree / found["file"]).read_text(encoding="utf-8")
            where = found["name"].split(": ", 1)[1]
            yield found["file"], where, found["diff"], spot(source, found)

    def weave(self, mutants: Sequence[Mutant]) -> dict[str, int]:
        """Puts mutants into one program. Returns the numbers of those that compile so, by key."""
        spots = {n: (each.file, each.spot) for n, each in enumerate(mutants, 1) if each.spot}
        woven = weave_all(self.tree, spots, self.environment) if spots else set()
        return {mutants[number - 1].key: number for number in woven}

    def run(self, mutant: Mutant, tests: str, number: int | None) -> str:
        """Runs tests on a mutant: `killed`, `timeout`, `survived`, or `unviable`.

        Args:
            mutant: The mutant.
            tests: One of its part's arguments.
            number: Its number among those that are woven into the tree; `None`: it is not.
        """
        most = 3.0 + 5.0 * self._baseline(tests)
        if number is not None:
            code, said = self._test_woven(tests, most, number)
        else:
            with self._applied(mutant):
                if mutant.file.endswith(".rs") and self._test(f"{tests} --no-run")[0]:
                    return "unviable"
                code, said = self._test(tests, most)
        if not code:
            return "survived"
        return "timeout" if code == -signal.SIGXCPU or "SIGXCPU" in said else "killed"

    @contextmanager
    def _applied(self, mutant: Mutant) -> Iterator[None]:
        path = self.tree / mutant.file
        kept = path.read_bytes()
        try:
            patch = ["patch", "--quiet", "--no-backup-if-mismatch", mutant.file]
            subprocess.run(patch, cwd=self.tree, input=mutant.diff.encode(), check=True)
            _forget(path)
            yield
        finally:
            path.write_bytes(kept)
            _forget(path)

    def _baseline(self, tests: str) -> float:
        """The processor time that tests take without a mutant; exits if one fails."""
        if tests not in self._baselines:
            if not _is_pytest(tests):
                self._test(f"{tests} --no-run")
            began = _used()
            code, said = self._test(tests)
            if code:
                sys.exit(f"{said}\nThese tests fail without a mutant: {tests}")
            self._baselines[tests] = _used() - began
        return self._baselines[tests]

    def _test(self, tests: str, most: float | None = None) -> tuple[int, str]:
        """The exit code of tests and what they print.

        Args:
            tests: Arguments for pytest or `cargo test`.
            most: Seconds of the processor's time, after which they are killed. Unlike those of a
                clock, they do not depend on what else the machine does.
        """
        if _is_pytest(tests):
            marks = "not slow and not alone and not servers"
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
            command += ["-m", marks, *tests.split()]
        else:
            command = ["cargo", "test", "--locked", "-q", *tests.split()]
        return self._run(command, self.tree, self.environment, most)

    def _test_woven(self, tests: str, most: float, number: int) -> tuple[int, str]:
        """Runs the programs of tests with a woven mutant, without cargo, which takes as long."""
        if tests not in self._programs:
            command = ["cargo", "test", "--locked", "-q", "--no-run", "--message-format=json"]
            code, said = self._run([*command, *tests.split()], self.tree, self.environment)
            if code:
                sys.exit(f"{said}\nThese tests do not compile: {tests}")
            messages = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            built = [message for message in messages if message.get("executable")]
            self._programs[tests] = [
                (Path(each["manifest_path"]).parent, each["executable"]) for each in built
            ]
        _, _, filters = tests.partition(" -- ")
        for folder, program in self._programs[tests]:
            chosen = {VARIABLE: str(number), "CARGO_MANIFEST_DIR": str(folder)}
            code, said = self._run(
                [program, "-q", *filters.split()], folder, self.environment | chosen, most
            )
            if code:
                return code, said
        return 0, ""

    def _run(
        self,
        command: list[str],
        folder: Path,
        environment: dict[str, str],
        most: float | None = None,
    ) -> tuple[int, str]:
        def limit() -> None:
            # A mutant may loop or allocate without end.
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            if most is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(most), math.ceil(most) + 5))

        with tempfile.TemporaryFile(dir=self.home) as output:
            found = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
                preexec_fn=limit,
            )
            output.seek(0)
            return found.returncode, output.read().decode(errors="replace")


_MEMORY = 16 * 2**30


def _is_pytest(tests: str) -> bool:
    return not tests.startswith("-p ")


def _used() -> float:
    """The processor time of the processes that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _forget(path: Path) -> None:
    """Removes what Python compiled, because a mutant may have its source's size and second."""
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def report(drawn: Sequence[Mutant], outcomes: dict[str, str]) -> str:
    """Counts, the killed share with its interval, and the survivors."""
    reasons = _equivalent()
    # The rest is not run yet, or not with all tests.
    outcomes = {key: outcome for key, outcome in outcomes.items() if outcome != "survives"}
    count = Counter(outcomes[mutant.key] for mutant in drawn if mutant.key in outcomes)
    survivors = [mutant for mutant in drawn if outcomes.get(mutant.key) == "survived"]
    known = [mutant for mutant in survivors if _reason(mutant, reasons)]
    said = []
    for mutant in survivors:
        reason = _reason(mutant, reasons)
        said.append(f"survived: {mutant.file}, {mutant.where}{f': {reason}' if reason else ''}")
        if not reason:
            said.append(mutant.diff)
    killed = count["killed"] + count["timeout"]
    said.append(
        f"{len(drawn)} drawn, {count.total()} run, {count['unviable']} do not compile, "
        f"{killed} killed ({count['timeout']} by time-out), {len(survivors)} survived"
    )
    for what, total in (
        ("of all", killed + len(survivors)),
        (f"without {len(known)} that change no result", killed + len(survivors) - len(known)),
    ):
        if total:
            low, high = (100.0 * end for end in wilson(killed, total))
            share = f"{100.0 * killed / total:.1f} %"
            said.append(f"killed {what}: {killed}/{total}, {share} (95 %: {low:.1f} to {high:.1f})")
    return "\n".join(said)


def _equivalent() -> list[dict[str, Any]]:
    """Survivors that change only speed, words or nothing, with reasons."""
    found: list[dict[str, Any]] = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutants"]
    return found


def _reason(mutant: Mutant, reasons: Sequence[dict[str, Any]]) -> str | None:
    new = " ".join(
        line[1:].strip()
        for line in mutant.diff.splitlines()
        if line.startswith("+") and not line.startswith("+++")
    ).replace("/* ~ changed by cargo-mutants ~ */ ", "")
    for entry in reasons:
        if entry["file"] == mutant.file and any(line in new for line in entry["lines"]):
            return str(entry["reason"])
    return None


def main() -> None:
    """Runs a shard of a draw and reports on the draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--shard", default="1/1", help="1/4 is the first of four, 0/1 is none")
    parser.add_argument("--again", action="store_true", help="runs survivors again")
    chosen = parser.parse_args()
    copy = Copy(chosen.area)
    copy.refresh()
    drawn = draw(copy.mutants(), chosen.seed, chosen.draws)
    kept = copy.home / "outcomes.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    records = {record["key"]: record for record in map(json.loads, lines)}
    number, shards = (int(part) for part in chosen.shard.split("/"))
    mine = drawn[number - 1 :: shards] if number else []
    for mutant in mine:
        if chosen.again and records.get(mutant.key, {}).get("outcome") == "survived":
            del records[mutant.key]
    unfinished = {"outcome": "survives", "stages": 0}
    waiting = [m for m in mine if records.get(m.key, unfinished)["outcome"] == "survives"]
    for together in (True, False):
        numbers = copy.weave(waiting) if together else {}
        turn = [mutant for mutant in waiting if not together or mutant.key in numbers]
        for stage in range(max(len(part.tests) for part in copy.parts)):
            for mutant in turn:
                before = records.get(mutant.key, unfinished)
                if before["outcome"] != "survives" or before["stages"] != stage:
                    continue
                outcome = copy.run(mutant, mutant.part.tests[stage], numbers.get(mutant.key))
                if outcome == "survived" and stage + 1 < len(mutant.part.tests):
                    # Later tests may notice it.
                    outcome = "survives"
                print(f"{outcome}: {mutant.file}, {mutant.where}", flush=True)
                record = {"key": mutant.key, "outcome": outcome, "stages": stage + 1}
                records[mutant.key] = record | {"diff": mutant.diff}
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(records[mutant.key]) + "\n")
        copy.refresh()
    print(report(drawn, {key: record["outcome"] for key, record in records.items()}))


if __name__ == "__main__":
    main()
