"""Worker processes of this machine.

They start afresh (never by fork, which threads would not survive) and talk over pipes. A worker's
death is therefore noticed at once and affects only its current run. That run is tried once more; if
the second worker dies too, the run has failed.

loky 3.7 fails every run that is not finished when a worker is killed (nine of twelve, in a trial
that killed the fourth). Dask's LocalCluster takes 5.9 s of processor time to start two workers,
before they import narrows.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from narrows.starting import start_of
from narrows.sweeps.errors import SweepError
from narrows.sweeps.plan import Item
from narrows.sweeps.work import failed_row

TICK_S = 0.1
"""Longest time without an event."""
ATTEMPTS = 2
"""How many workers a run may lose until it has failed."""

_AHEAD_S = 0.5
"""Seconds of work that a worker gets at once, so that it does not wait between short runs."""
_MOST_AHEAD = 64
_STARTS = 3
"""How many workers in a row may die before they start to work."""

_START = start_of("narrows.sweeps.worker")


@dataclass(frozen=True)
class Event:
    """A report from an executor. An empty report only means that time has passed."""

    row: Mapping[str, Any] | None = None
    """The row of a run that has ended."""
    running: float = 0.0
    """Progress of the runs under way, in runs."""
    label: str = ""
    """Text to show next to the progress."""


@dataclass(eq=False)
class _Process:
    popen: subprocess.Popen[bytes]
    errors: IO[bytes]
    ready: bool = False
    waiting: deque[Item] = field(default_factory=deque)
    """Items that it has not finished yet; it works on the first."""
    progress: float = 0.0
    heard: bytes = b""
    """The beginning of an incomplete line of output."""


class LocalWorkers:
    """The processes of one sweep. Leaving the context ends them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._processes: list[_Process] = []
        self._selector = selectors.DefaultSelector()
        self._todo: deque[Item] = deque()
        self._lost: dict[str, int] = {}
        self._failed_starts = 0
        self._run_s: float | None = None
        """The smoothed wall-clock time of a run, in seconds."""

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.popen.kill()
        for process in list(self._processes):
            self._bury(process)
        self._selector.close()

    def run(self, job: Mapping[str, Any], items: Iterator[Item]) -> Iterator[Event]:
        """Runs all items; yields an event for each that ends, and at least one every `TICK_S`.

        Raises:
            SweepError: No worker starts, or a worker found an error that concerns all runs.
        """
        self._todo = deque(items)
        line = json.dumps(job, default=str)
        while self._todo or any(process.waiting for process in self._processes):
            wanted = min(self._count, len(self._todo) + self._busy())
            while len(self._processes) < wanted:
                self._start(line)
            for process in list(self._processes):
                self._hand_out(process)
            for process in self._heard():
                for row in self._take(process, job):
                    yield Event(row, self._running())
            yield Event(None, self._running())

    def _busy(self) -> int:
        return sum(bool(process.waiting) for process in self._processes)

    def _running(self) -> float:
        return sum(process.progress for process in self._processes)

    def _start(self, job: str) -> None:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        command = [sys.executable, "-P", "-c", _START, json.dumps(sys.path)]
        # Each gets one core, because a run is one thread and its tables are small.
        alone = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **alone},
            process_group=0,  # Ctrl-C is for this process
        )
        process = _Process(popen, errors)
        self._processes.append(process)
        assert popen.stdout is not None, "it was asked for a pipe"
        os.set_blocking(popen.stdout.fileno(), False)
        self._selector.register(popen.stdout, selectors.EVENT_READ, process)
        self._tell(process, job)

    def _hand_out(self, process: _Process) -> None:
        """Gives a worker enough to be busy for a moment; one run at a time if runs are long."""
        left = len(self._todo)
        if not left or not process.ready:
            return
        ahead = 1
        if self._run_s is not None and self._run_s < _AHEAD_S:
            fair = -(-left // (2 * len(self._processes)))
            ahead = max(1, min(_MOST_AHEAD, fair, int(_AHEAD_S / max(self._run_s, 1e-6))))
        if len(process.waiting) > ahead // 2:
            return
        count = min(left, ahead)
        batch = [self._todo.popleft() for _ in range(count)]
        process.waiting.extend(batch)
        self._tell(process, json.dumps([[item.run, item.places, item.seed] for item in batch]))

    def _tell(self, process: _Process, line: str) -> None:
        assert process.popen.stdin is not None, "it was asked for a pipe"
        # If the worker is dead, the end of its output will show that.
        with contextlib.suppress(BrokenPipeError):
            process.popen.stdin.write(line.encode() + b"\n")
            process.popen.stdin.flush()

    def _heard(self) -> list[_Process]:
        return [key.data for key, _ in self._selector.select(TICK_S)]

    def _take(self, process: _Process, job: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Reads a worker's output; yields the rows of runs that ended."""
        assert process.popen.stdout is not None, "it was asked for a pipe"
        said = process.popen.stdout.read(1 << 20)
        if said is None:
            return
        if not said:
            yield from self._died(process, job)
            return
        *lines, process.heard = (process.heard + said).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "row" in message:
                process.waiting.popleft()
                process.progress = 0.0
                took_s = message["took_s"]
                self._run_s = took_s if self._run_s is None else 0.8 * self._run_s + 0.2 * took_s
                yield message["row"]
            elif "progress" in message:
                process.progress = message["progress"]
            elif "ready" in message:
                process.ready = True
                self._failed_starts = 0
            else:
                raise SweepError("", message["fatal"])

    def _died(self, process: _Process, job: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Gives a dead worker's runs to other workers, unless a run has lost several workers."""
        why = self._bury(process)
        if not process.ready:
            self._failed_starts += 1
            if self._failed_starts >= _STARTS:
                raise SweepError("", f"a worker process does not start: {why}")
        if not process.waiting:
            return
        suspect, *others = process.waiting
        process.waiting.clear()
        self._todo.extendleft(reversed(others))
        self._lost[suspect.run] = self._lost.get(suspect.run, 0) + 1
        if self._lost[suspect.run] < ATTEMPTS:
            self._todo.append(suspect)
            return
        values = [
            axis["values"][place] for axis, place in zip(job["axes"], suspect.places, strict=True)
        ]
        message = f"its worker process died, {ATTEMPTS} times ({why})"
        yield failed_row(suspect, values, message)

    def _bury(self, process: _Process) -> str:
        """Frees a dead worker's resources; returns why it died."""
        popen = process.popen
        assert popen.stdin is not None and popen.stdout is not None, "pipes were asked for"
        self._selector.unregister(popen.stdout)
        self._processes.remove(process)
        popen.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            popen.stdin.close()
        try:
            code = popen.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            popen.kill()
            code = popen.wait()
        with process.errors as errors:
            errors.seek(0)
            lines = errors.read()[-4096:].decode(errors="replace").strip().splitlines()
        if code < 0:
            return f"killed by {_signal_name(-code)}"
        return lines[-1] if lines else f"exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
