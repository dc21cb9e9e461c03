"""The kernel's runs of draws, kept in a folder: an interrupted agreement goes on where it stopped.

    FOLDER/kernel/draw-N     a run folder

The simulator's runs are not kept: they take a hundredth of the time, and after a change of the
simulator the same kernel runs are what it is to be held against again.
"""

from __future__ import annotations

from pathlib import Path

from narrows.backends import Progress, run
from narrows.backends.kernel.backend import told
from narrows.results import Run, RunFolderError
from narrows.scenario import Scenario

__all__ = ["OWN", "kernel_run"]

RUNS = "kernel"

OWN = frozenset({RUNS, "agreement.json", "scatter.svg"})
"""What stands in the folder of an agreement."""


def kernel_run(
    folder: Path | None, number: int, scenario: Scenario, backend: str, progress: Progress
) -> Run:
    """A draw's run on the kernel: the one that is kept, or a new one, which is kept then.

    Raises:
        BackendError: The kernel cannot be had, or refuses the draw.
        RunFolderError: What is kept cannot be read, or is the run of something else.
    """
    path = None if folder is None else folder / RUNS / f"draw-{number}"
    if path is not None and path.exists():
        return _kept(path, scenario)
    real = run(scenario, backend=backend, progress=progress)
    if path is not None and real.status == "complete":
        path.parent.mkdir(parents=True, exist_ok=True)
        real.save(path)
    return real


def _kept(path: Path, scenario: Scenario) -> Run:
    found = Run.load(path)
    # Keys that no kernel looks at may differ: the run is the same.
    if told(Scenario.of(found.scenario)) != told(scenario):
        raise RunFolderError(path, "the run of another draw", "name another folder")
    return found
