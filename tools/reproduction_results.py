"""Runs the reproductions and writes `result.json` and the README's tables into their folders.

python tools/reproduction_results.py             all papers
python tools/reproduction_results.py H D         some
python tools/reproduction_results.py D-kernel    those on a guest kernel, into `kernel.json`
python tools/reproduction_results.py --tables    writes only the words, from existing results
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from narrows.reproduce import Paper, papers
from narrows.reproduce.outcome import DIFFERS
from narrows.reproduce.readme import filled

ARGUMENTS = {
    "H": ("H", "--seeds", "6"),
    # Takes three hours of processor time, with other choices and the larger networks.
    "K": ("K",),
    "D": ("D",),
    # Takes six minutes on two idle cores; needs narrows kernel prepare.
    "D-kernel": ("D", "--backend", "kernel-virtual", "--no-sensitivity", "--seeds", "5"),
    "S": ("S",),
    "BBR": ("BBR", "--seeds", "4"),
    # Takes five minutes on two idle cores; needs narrows kernel prepare.
    "BBR-kernel": (
        *("BBR-W3", "BBR-W4", "BBR-W6", "BBR-W7", "--backend", "kernel-virtual"),
        *("--no-sensitivity", "--seeds", "3"),
    ),
    # Takes a quarter of an hour on two cores.
    "L4S": ("L4S", "--seeds", "3"),
    "CAKE": ("CAKE",),
    # Needs root. Nothing else should run meanwhile.
    "R": ("R", "--seeds", "3"),
}
"""The arguments of `narrows reproduce` for each paper."""


def main(arguments: list[str]) -> None:
    """Makes the results and the READMEs of the papers that the arguments name, or of all."""
    parser = argparse.ArgumentParser(
        description="Runs the reproductions, and writes result.json and the README's tables."
    )
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=f"{', '.join(ARGUMENTS)}")
    parser.add_argument("--tables", action="store_true", help="write the words only; run nothing")
    wanted = parser.parse_args(arguments)
    unknown = [key for key in wanted.papers if key not in ARGUMENTS]
    if unknown:
        parser.error(f"there is no paper {unknown[0]}: name some of {', '.join(ARGUMENTS)}")
    tables_only = wanted.tables
    known = {paper.key: paper for paper in papers()}
    for key in wanted.papers or list(ARGUMENTS):
        name, _, of_kernel = key.partition("-")
        paper = known[name]
        result = paper.folder / ("kernel.json" if of_kernel else "result.json")
        if tables_only and not result.exists():
            continue
        if not tables_only:
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "narrows", "reproduce", *ARGUMENTS[key]]
                subprocess.run([*command, "--out", folder], check=True)
                result.write_bytes((Path(folder) / "result.json").read_bytes())
        readme = paper.folder / "README.md"
        found = reworded(json.loads(result.read_text(encoding="utf-8")), paper)
        result.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        text = filled(readme.read_text(encoding="utf-8"), found, result.name)
        readme.write_text(text, encoding="utf-8")


def reworded(found: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """A result with the paper's current summary, sentences, notes and reasons, without new runs."""
    claims = {claim.key: claim for claim in paper.claims}
    found["papers"][0]["summary"] = list(paper.summary)
    for entry in found["claims"]:
        claim = claims.get((entry["id"], entry["metric"]))
        if claim is not None:
            entry["note"] = claim.note
            if claim.worded is not None:
                entry["worded"] = claim.worded.sentence
            entry["reason"] = claim.reason if entry["verdict"] in DIFFERS else ""
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
