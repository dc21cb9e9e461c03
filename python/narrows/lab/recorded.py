"""Runs of examples on a Linux kernel, recorded for the page: files in `web/recorded/`.

`tools/record_kernel.py` makes them. They have curves and numbers as the page draws them, and say of
which scenario they are. The page offers them for an example's own settings.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.scenario import Scenario

if TYPE_CHECKING:
    from narrows.results import Run


def digest(scenario: Scenario) -> str:
    """A digest of what a scenario says; a new key with a default changes none."""
    text = json.dumps(scenario.written(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def written(run: Run, scenario: str, drawn: dict[str, Any]) -> str:
    """The file of a run on a kernel.

    Args:
        run: The run.
        scenario: The digest of its scenario.
        drawn: Its plots and its numbers.
    """
    kernel = run.host["kernel"]
    made = {
        "version": kernel["version"],
        "flags": kernel["flags"],
        "narrows": f"{run.narrows} ({run.build})",
        "seed": run.seed,
        "started": run.wall["started"],
        "scenario": scenario,
        **drawn,
    }
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n"


def kernels(folder: Path) -> dict[str, str]:
    """The kernel of each recorded run in a folder, by the name of its example."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        version = json.loads(path.read_text(encoding="utf-8"))["version"]
        found[path.stem] = "Linux " + ".".join(version.split(".")[:2])
    return found
