"""Puts many mutants of Rust code into one program. An environment variable chooses one.

To compile a mutant takes longer than to run its nearest tests. So each function gets a copy of its
body for each of its mutants:

    fn before(self, other: Self) -> bool {
        match crate::chosen_mutant() {
            17 => { true }
            _ => { (self.0.wrapping_sub(other.0) as i32) < 0 }
        }
    }

This is not possible in a `const fn`, and if the body has another type than the original (`impl
Iterator`). Such mutants have to be compiled alone.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "CHOSEN_MUTANT"

_CHOICE = f"""
extern crate std as std_of_mutants;

/// Returns the number of the mutant that runs; 0: none.
pub fn chosen_mutant() -> u32 {{
    static CHOSEN: std_of_mutants::sync::OnceLock<u32> = std_of_mutants::sync::OnceLock::new();
    let chosen = || std_of_mutants::env::var("{VARIABLE}").ok()?.parse().ok();
    *CHOSEN.get_or_init(|| chosen().unwrap_or(0))
}}
"""


@dataclass(frozen=True)
class Spot:
    """Where a mutant changes its file, as offsets of characters."""

    function: tuple[int, int]
    """With its attributes and comments."""
    span: tuple[int, int]
    replacement: str


def spot(source: str, found: Mapping[str, Any]) -> Spot | None:
    """Reads what `cargo mutants --list --json` says of a mutant that can be woven."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offsets(span: Mapping[str, Mapping[str, int]]) -> tuple[int, int]:
        begin, end = (
            starts[at["line"] - 1] + at["column"] - 1 for at in (span["start"], span["end"])
        )
        return begin, end

    if not found["function"]:
        return None
    function = offsets(found["function"]["span"])
    (begin, end), _ = _parts(source, *function)
    if re.search(r"\bconst (?=(unsafe )?fn\b)", source[begin:end]):
        return None
    return Spot(function, offsets(found["span"]), found["replacement"])


def weave(source: str, mutants: Mapping[int, Spot]) -> tuple[str, list[tuple[int, int, int]]]:
    """Puts numbered mutants into a file. Returns it, and the first and last line of each mutant."""
    by_function = defaultdict(list)
    for number, mutant in mutants.items():
        by_function[mutant.function].append(number)
    # A function inside another one belongs to the outer one.
    outermost = [
        one
        for one in by_function
        if not any(other[0] <= one[0] and one[1] <= other[1] != one[1] for other in by_function)
    ]
    text, lines, done = "", [], 0
    for begin, end in sorted(outermost):
        numbers = [
            number
            for (start, stop), inner in by_function.items()
            if begin <= start and stop <= end
            for number in inner
        ]
        head, body = _parts(source, begin, end)
        text += source[done : head[1]]
        text += "{ match crate::chosen_mutant() {\n"
        for number in numbers:
            (start, stop), changed = mutants[number].span, mutants[number].replacement
            first = text.count("\n") + 1
            text += (
                f"{number} => {{ {source[body[0] : start]}{changed}{source[stop : body[1]]}\n}}\n"
            )
            lines.append((first, text.count("\n"), number))
        text += f"_ => {{ {source[body[0] : body[1]]}\n}} }} }}"
        done = end
    return text + source[done:], lines


def _parts(source: str, begin: int, end: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The offsets of a function's head, which ends at its brace, and of its body."""
    at = begin
    for line in source[begin:end].splitlines(keepends=True):
        if not line.strip().startswith(("//", "#[")):
            break
        at += len(line)
    depth, brace = 0, source.index("(", source.index("fn ", at))
    while True:
        depth += {"(": 1, ")": -1}.get(source[brace], 0)
        if depth == 0 and source[brace] == "{":
            return (at, brace), (brace + 1, source.rindex("}", brace, end))
        brace += 1


def weave_all(
    tree: Path, mutants: Mapping[int, tuple[str, Spot]], environment: Mapping[str, str]
) -> set[int]:
    """Puts mutants, each with its file, into the crates of `tree`. Returns those that compile."""
    kept = dict(mutants)
    files = {file for file, _ in mutants.values()}
    sources = {file: (tree / file).read_text(encoding="utf-8") for file in files}
    crates = {file[: file.index("/src/")] for file in files}
    for crate in crates:
        root = tree / crate / "src/lib.rs"
        root.write_text(root.read_text(encoding="utf-8") + _CHOICE, encoding="utf-8")
    while True:
        owners: dict[str, list[tuple[int, int, int]]] = {}
        for file, source in sources.items():
            own = {number: spot for number, (where, spot) in kept.items() if where == file}
            text, owners[file] = weave(source, own)
            (tree / file).write_text(text, encoding="utf-8")
        wrong = _wrong(tree, sorted(crates), owners, environment)
        if not wrong:
            return set(kept)
        for number in wrong:
            del kept[number]


def _wrong(
    tree: Path,
    crates: Sequence[str],
    owners: Mapping[str, Sequence[tuple[int, int, int]]],
    environment: Mapping[str, str],
) -> set[int]:
    """The mutants in which the compiler finds errors."""
    # A check would not find arithmetic that always overflows.
    command = ["cargo", "build", "--locked", "-q", "--lib", "--message-format=json"]
    command += [f"--package=narrows-{Path(crate).name}" for crate in crates]
    done = subprocess.run(
        command, cwd=tree, env=dict(environment), capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return set()
    wrong = set()
    for line in done.stdout.splitlines():
        message = json.loads(line).get("message") or {}
        for span in message.get("spans", []) if message.get("level") == "error" else []:
            for first, last, number in owners.get(span["file_name"], []):
                if span["is_primary"] and first <= span["line_start"] <= last:
                    wrong.add(number)
    if not wrong:
        raise RuntimeError(f"the woven mutants do not compile:\n{done.stdout}\n{done.stderr}")
    return wrong
