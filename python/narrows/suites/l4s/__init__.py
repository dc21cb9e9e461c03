"""Coexistence of L4S and classic traffic, for any queue and control."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows.backends import parts_from_outside
from narrows.controls import Control
from narrows.queues import Queue
from narrows.suites.conduct import SuiteRun, conduct
from narrows.suites.contenders import contenders
from narrows.suites.l4s.parts import suite
from narrows.suites.l4s.scenes import Controls
from narrows.sweeps import Progress

__all__ = ["l4s"]

SEEDS = 5
QUICK_SEEDS = 3
QUICK = 0.4
"""The length of runs with `quick`, as a share of the usual one."""


def l4s(
    queues: Sequence[str] | Mapping[str, str | Mapping[str, Any] | Queue],
    *,
    control: str = "prague",
    classic: str = "cubic",
    out: str | Path | None = None,
    seeds: int | None = None,
    quick: bool = False,
    controls: Mapping[str, Control] | None = None,
    plugins: Sequence[str | Path] = (),
    workers: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    scale: float | None = None,
) -> SuiteRun:
    """Runs the tests of L4S, or those that are missing in `out`. Ctrl-C ends them, as partial.

    Args:
        queues: As in `rfc7928`.
        control: The congestion control whose packets are ECN-capable.
        classic: The one beside it, without ECN.
        out: The folder of the runs; by default they stay in memory.
        seeds: Runs of each scene with each queue; `SEEDS` or `QUICK_SEEDS` by default.
        quick: Fewer seeds, and shorter runs.
        controls: Congestion controls of your own by name, which `control` and `classic` may be.
        plugins: Shared objects whose queues and controls the other arguments name.
        workers: Processes; by default one per core.
        progress: Called now and then with the progress.
        scale: The length of runs, as a share of the usual one.

    Raises:
        SuiteError: A queue or a control does not exist, or settings are not valid.
        ControlError: One of `controls` is no congestion control.
        RunFolderError: `out` holds something else, or cannot be written.
    """
    length = scale if scale is not None else QUICK if quick else 1.0
    outside = parts_from_outside(None, controls, plugins)
    offered = outside.offered if outside else frozenset()
    return conduct(
        suite(Controls(control, classic, offered), length),
        contenders(queues),
        seeds=seeds or (QUICK_SEEDS if quick else SEEDS),
        out=None if out is None else Path(out),
        workers=workers,
        plugins=[Path(path) for path in plugins],
        outside=bool({control, classic} & offered),
        controls=controls,
        progress=progress,
    )
