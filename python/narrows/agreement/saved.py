"""Keeps the kernel's runs of draws in a folder, so that an interrupted agreement can resume.

    FOLDER/kernel/draw-N-SEED     a run folder

It does not keep the simulator's runs. They take a hundredth of the time, and after a change to the
simulator, they run again and are compared with the same kernel runs.
"""

from __future__ import annotations

from pathlib import Path

from narrows.backends import Progress, run
from narrows.backends.kernel.backend import job_of
from narrows.results import Run, RunFolderError
from narrows.scenario import Scenario

RUNS = "kernel"

"""The subfolder of an agreement's folder that holds the kernel's runs."""

OWN = frozenset({RUNS, "agreement.json", "scatter.svg"})
"""Everything that an agreement's folder holds."""


def kernel_run(
    folder: Path | None,
    number: int,
    scenario: Scenario,
    backend: str,
    progress: Progress,
    *,
    seed: int,
) -> Run:
    """A draw's kernel run with a seed: the saved one, or a new one, which it then saves.

    Raises:
        BackendError: The kernel is not available, or refuses the draw.
        RunFolderError: The saved run cannot be read, or belongs to something else.
    """
    path = None if folder is None else folder / RUNS / f"draw-{number}-{seed}"
    if path is not None and path.exists():
        return _saved(path, scenario)
    real = run(scenario, seed=seed, backend=backend, progress=progress)
    if path is not None and real.status == "complete":
        path.parent.mkdir(parents=True, exist_ok=True)
        real.save(path)
    return real


def _saved(path: Path, scenario: Scenario) -> Run:
    found = Run.load(path)
    # Keys that the kernel ignores may differ; the run is the same.
    if job_of(Scenario.of(found.scenario)) != job_of(scenario):
        raise RunFolderError(path, "holds the run of another draw", "name another folder")
    return found
