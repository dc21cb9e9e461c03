"""The kernel's runs of draws, kept in a folder so that an interrupted agreement can be resumed.

    FOLDER/kernel/draw-N     a run folder

The simulator's runs are not kept: they take a hundredth of the time, and after a change the
simulator is compared again with the same runs of the kernel.
"""

from __future__ import annotations

from pathlib import Path

from narrows.backends import Progress, run
from narrows.backends.kernel.backend import told
from narrows.results import Run, RunFolderError
from narrows.scenario import Scenario

__all__ = ["OWN", "kernel_run"]

RUNS = "kernel"

"""The subfolder of an agreement's folder that holds the kernel's runs."""

OWN = frozenset({RUNS, "agreement.json", "scatter.svg"})
"""All that an agreement's folder holds."""


def kernel_run(
    folder: Path | None, number: int, scenario: Scenario, backend: str, progress: Progress
) -> Run:
    """A draw's run on the kernel: the kept one, or a new one, which is then kept.

    Raises:
        BackendError: The kernel is not available, or refuses the draw.
        RunFolderError: The kept run cannot be read, or is the run of something else.
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
    # Keys that no kernel looks at may differ; the run is the same.
    if told(Scenario.of(found.scenario)) != told(scenario):
        raise RunFolderError(path, "the run of another draw", "name another folder")
    return found
