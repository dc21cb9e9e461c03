"""Records runs of examples on a Linux kernel for the laboratory page, in web/recorded/.

python tools/record_kernel.py                   the examples that have a recorded run, again
python tools/record_kernel.py sqm home-line     these
python tools/record_kernel.py --runs FOLDER     keeps the run folders there, and takes those it has

It needs Node and the guest kernel in virtual time (narrows kernel prepare). A run takes about as
long as it simulates, on a quiet core. It has the example's own settings, and what the page watches.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from narrows import Run, run
from narrows.lab.knobs import watched
from narrows.lab.recorded import digest, written
from narrows.lab.work import tables
from narrows.scenario import Scenario, examples

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "web" / "recorded"


def main() -> None:
    """Records the runs that the arguments name."""
    parser = argparse.ArgumentParser(description="Records runs on a Linux kernel for the page.")
    parser.add_argument("names", nargs="*", metavar="EXAMPLE")
    parser.add_argument("--runs", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.stem for path in RECORDED.glob("*.json"))
    paths = {each.name: each.path for each in examples()}
    if unknown := [name for name in names if name not in paths]:
        parser.error(f"{unknown[0]}: no such example")
    RECORDED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        runs = arguments.runs or Path(temporary)
        for name in names:
            scenario = watched(Scenario.load(paths[name]))
            made = run_of(scenario, runs / name)
            text = written(made, digest(scenario), drawn(made, scenario, Path(temporary)))
            (RECORDED / f"{name}.json").write_text(text, encoding="utf-8")
            print(f"{name}: {len(text)} bytes")


def run_of(scenario: Scenario, folder: Path) -> Run:
    """The run in a folder, if it is of this scenario; or else a new one, which the folder gets."""
    if folder.is_dir():
        made = Run.load(folder)
        if Scenario.from_dict(made.scenario).plan() != scenario.plan():
            sys.exit(f"{folder}: is a run of another scenario; remove it")
    else:
        made = run(scenario, backend="kernel-virtual").save(folder)
    if made.status != "complete":
        sys.exit(f"{folder}: the run ended early ({made.stopped})")
    return made


def drawn(made: Run, scenario: Scenario, folder: Path) -> dict[str, Any]:
    """The plots and the numbers that the page makes of a run."""
    (folder / "tables").write_bytes(tables(made))
    (folder / "plan").write_text(json.dumps(scenario.plan()), encoding="utf-8")
    command = ["node", ROOT / "tools" / "recorded_run.mjs", folder / "tables", folder / "plan"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


if __name__ == "__main__":
    main()
