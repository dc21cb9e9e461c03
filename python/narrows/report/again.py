"""How a reader of a run's report repeats the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from narrows.results import Run
from narrows.results.origin import FLENT, MACHINES, MONITOR, is_kernel


@dataclass(frozen=True)
class Again:
    """How a reader repeats a run."""

    title: str
    text: str
    command: str
    """The command; empty if no single command repeats the run."""
    scenario: bool
    """Whether repeating it needs the scenario."""


def again(run: Run) -> Again:
    """Says how to repeat a run."""
    if run.backend == MONITOR:
        return Again(
            "Measure again",
            "It measures the machine at that time, so its tables will differ.",
            _watching(run.scenario, run.end_s),
            scenario=False,
        )
    if run.backend == FLENT:
        text = "Flent measured it; its file is the original."
        return Again("Where it comes from", text, "", scenario=False)
    save = "Save the scenario below as scenario.toml"
    if run.backend == MACHINES:
        text = f"{save}; docs/machines.md says how to run it on several machines."
        return Again("Run it again", f"{text} Its tables will differ a little.", "", scenario=True)
    same = (
        f"{save}. A kernel gives similar tables each time, not the same ones."
        if is_kernel(run.backend)
        else f"{save}; the same version of narrows, scenario and seed give the same tables, byte "
        "for byte."
    )
    command = f"narrows run scenario.toml --backend {run.backend} --seed {run.seed}"
    return Again("Run it again", same, command, scenario=True)


def _watching(settings: Mapping[str, Any], end_s: float) -> str:
    """The command that watches the same queues for the same length of time."""
    interface = settings.get("interface", "all")
    words = ["narrows monitor", *([] if interface == "all" else [str(interface)])]
    rate = float(settings.get("rate", 10.0))
    words += [] if rate == 10.0 else [f"--rate {rate:g}"]
    return " ".join([*words, f"--duration {max(0.1, round(end_s, 1)):g}"])
