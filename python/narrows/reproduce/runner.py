"""Runs the cells of a paper: each (cell, choice, seed) once, spread over the cores.

Threads suffice, because the simulator releases the interpreter lock while it runs. Cells whose time
and memory are measured run in a separate process. Of each run, only the metrics that the paper
measures are kept, not the tables, so memory does not grow with the number of seeds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from narrows.backends import DEFAULT, get
from narrows.backends.interrupts import Stopped, as_ended, until
from narrows.errors import NarrowsError
from narrows.reproduce.cells import Cell, Choice
from narrows.reproduce.claims import Claim, Measured
from narrows.reproduce.measurements import BASE
from narrows.reproduce.outcome import Outcome, cells_to_run
from narrows.reproduce.paper import Execute, Paper


@dataclass(frozen=True)
class Job:
    """One run of one cell."""

    cell: Cell
    choice: Choice | None
    seed: int
    instead: Mapping[str, str] = field(default_factory=dict)
    """Settings on top of the cell's, for the backend."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Settings on top of all."""

    @property
    def settings(self) -> dict[str, str]:
        """The cell's settings with the backend's and the other choice's on top."""
        choice = self.choice.settings(self.cell) if self.choice else {}
        return {**self.cell.set, **self.instead, **choice, **self.extra}

    @property
    def label(self) -> str:
        """What a progress bar shows."""
        choice = f", {self.choice.name}" if self.choice else ""
        return f"{self.cell.name}{choice}, seed {self.seed}"


@dataclass(frozen=True)
class Progress:
    """How far a reproduction has got."""

    done: int
    total: int
    label: str
    """The run that ended last."""


def reproduce(
    paper: Paper,
    *,
    claims: Sequence[Claim] | None = None,
    choices: Sequence[Choice] = (),
    against: bool = False,
    seeds: int | None = None,
    quick: bool = False,
    backend: str = DEFAULT,
    jobs: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    execute: Execute | None = None,
    recorded: Path | None = None,
) -> Outcome:
    """Runs what `claims` need and returns what was found.

    A failed run becomes a line in `Outcome.failures`. An interrupt (Ctrl-C) ends the reproduction
    early. Either way, the outcome says that it is not complete, and it holds all runs that ended.

    Args:
        paper: The paper; see :func:`narrows.reproduce.papers`.
        claims: A selection; all of the paper's by default.
        choices: Other choices to run as well.
        against: Whether to run the cells that only the reference measurements have, too.
        seeds: Runs seeds 1 to this number, by default the paper's own; intervals need two.
            Other choices run at most the paper's `choice_seeds`.
        quick: Whether the paper's `quick` settings go on top of every cell's.
        backend: What runs the cells, one of `narrows.backends.BACKENDS`.
        jobs: Number of runs at once; the number of cores by default.
        progress: Called in the calling thread whenever a run has ended.
        execute: How one cell is run.
        recorded: For papers whose runs are read from a folder: the folder, by default the one that
            comes with narrows. Its rounds take the place of seeds; all of them are read.

    Raises:
        BackendError: There is no such backend.
        RunFolderError: `recorded` cannot be read.
    """
    get(backend)
    chosen = list(paper.claims if claims is None else claims)
    if paper.recorded is not None:
        return from_record(paper, chosen, choices, recorded)
    numbers = list(range(1, (seeds or paper.seeds) + 1))
    if paper.execute is not None:
        # The paper's own code measures real programs.
        backend = "kernel"
    on_kernel = backend.startswith("kernel")
    choices = [choice for choice in choices if choice.on_kernel or not on_kernel]
    outcome = Outcome(
        paper=paper, claims=chosen, seeds=numbers, backend=backend, choices=choices, quick=quick
    )
    pairs = cells_to_run(paper, chosen, choices, against)
    lacking = {cell.name: paper.lacks(cell) for _, cell in pairs}
    pairs = [(choice, cell) for choice, cell in pairs if lacking[cell.name] is None]
    outcome.source = "; ".join(
        f"not measured ({', '.join(name for name in lacking if lacking[name] == why)}): {why}"
        for why in dict.fromkeys(lacking.values())
        if why is not None
    )
    # Seeds are outermost, so that an interrupted reproduction has some seeds of every cell.
    plan = [
        Job(
            cell,
            choice,
            seed,
            paper.on_kernel(cell) if on_kernel else {},
            {**paper.quick, **cell.quick} if quick else {},
        )
        for seed in numbers
        for choice, cell in pairs
        if (choice is None or seed <= paper.choice_seeds) and seed <= (cell.seeds or seed)
    ]
    run_cell = execute or paper.execute or partial(run_one, backend=backend)
    stop = threading.Event()
    pool = ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1, thread_name_prefix="narrows")
    try:
        futures: dict[Future[Measured], Job] = {
            pool.submit(run_cell, paper, job.cell, job.settings, job.seed, stop): job
            for job in plan
        }
        for done, future in enumerate(as_ended(futures), start=1):
            job = futures[future]
            try:
                measured = future.result()
            except (NarrowsError, OSError, ValueError, RuntimeError) as error:
                outcome.failures.append(f"{job.label}: {error}")
                outcome.complete = False
            else:
                key = (job.choice.name if job.choice else BASE, job.cell.name)
                outcome.measured.setdefault(key, {})[job.seed] = measured
            if progress is not None:
                progress(Progress(done, len(plan), job.label))
    except KeyboardInterrupt:
        outcome.complete = False
        outcome.interrupted = True
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
    return outcome


def from_record(
    paper: Paper, claims: Sequence[Claim], choices: Sequence[Choice], folder: Path | None
) -> Outcome:
    """The outcome of `claims` from runs that were recorded earlier.

    Raises:
        RunFolderError: The folder cannot be read.
    """
    assert paper.recorded is not None, "only of papers that have a record"
    record = paper.recorded(folder)
    rounds = sorted({number for runs in record.runs.values() for number in runs})
    outcome = Outcome(
        paper=paper,
        claims=claims,
        seeds=rounds,
        backend="kernel",
        choices=list(choices),
        source=record.source,
    )
    outcome.measured = {(BASE, cell): dict(runs) for cell, runs in record.runs.items()}
    outcome.complete = record.complete
    return outcome


def run_one(
    paper: Paper,
    cell: Cell,
    set: Mapping[str, str],
    seed: int,
    stop: threading.Event,
    *,
    backend: str = DEFAULT,
) -> Measured:
    """Runs a cell once and measures it, in a separate process if the cell asks for that.

    Raises:
        RuntimeError: The run or its process stopped early.
        BackendError: The backend cannot honour a key of the cell's scenario.
        narrows.ScenarioError: The cell's scenario does not take a setting.
    """
    from narrows import Scenario, run

    path = paper.folder / "scenarios" / cell.scenario
    if cell.own_process:
        return in_own_process(paper, path, set, seed, stop, backend=backend)
    scenario = Scenario.load(path, set=set)
    result = run(scenario, seed=seed, backend=backend, progress=until(stop))
    if result.status != "complete":
        raise RuntimeError(f"the run stopped early: {result.stopped}")
    return paper.measure(result)


def in_own_process(
    paper: Paper,
    path: Path,
    set: Mapping[str, str],
    seed: int,
    stop: threading.Event,
    *,
    backend: str = DEFAULT,
) -> Measured:
    """Runs a cell in a separate process; the metrics include its processor time and peak memory.

    Raises:
        RuntimeError: The process failed; the text is its last line of output.
    """
    command = [sys.executable, "-m", "narrows.reproduce.child", paper.slug, str(path), str(seed)]
    child = subprocess.Popen(
        [*command, json.dumps(dict(set)), backend],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while True:
        try:
            said, complaint = child.communicate(timeout=LOOK_AGAIN_S)
            break
        except subprocess.TimeoutExpired:
            if stop.is_set():
                child.kill()
                child.communicate()
                raise Stopped("interrupted") from None
    if child.returncode != 0:
        last = (complaint.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
        raise RuntimeError(f"the run's process failed: {last}")
    found: dict[str, float] = json.loads(said)
    return Measured(found)


LOOK_AGAIN_S = 0.2
"""Seconds between two checks for an interrupt while a separate process runs."""
