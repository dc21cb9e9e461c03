"""Does a job: builds the network, runs the traffic, writes the results, and removes the network.

    agent WORKSPACE [guest HOST_FOLDER]

The workspace holds `job.json`. Into it, the agent writes `progress` (seconds of the run, now and
then), one file of columns for each process, and at the end `done.json`, or `failed.txt` with one
line. If a file `stop` appears there, the run ends early.

narrows-live plays all applications. Samples, captures and changes have processes of their own. A
process can hold sockets from several namespaces, so the number of processes does not grow with the
network.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from . import network, system
from .captures import Captures
from .live import Live
from .loop import Loop
from .neighbours import Neighbours
from .programs import Programs
from .samples import Sampler

TICK_S = 0.1
LOOK_S = 0.001


def main() -> None:
    """Runs the command above."""
    folder = Path(sys.argv[1])
    guest = sys.argv[2:3] == ["guest"]
    if guest:
        _as_first_process(folder, sys.argv[3])
    try:
        _work(folder)
    except network.NetworkError as error:
        (folder / "failed.txt").write_text(str(error))
    except BaseException as error:
        (folder / "failed.txt").write_text(f"{type(error).__name__}: {error}")
        (folder / "traceback.txt").write_text(traceback.format_exc())
    finally:
        if guest:
            system.halt()


def _as_first_process(folder: Path, host_folder: str) -> None:
    """Does the necessary work of init: mounts file systems, including the host's workspace."""
    system.mount("proc", "/proc", "proc")
    system.mount("sys", "/sys", "sysfs")
    system.mount("tmpfs", "/run", "tmpfs")
    folder.mkdir(parents=True)
    system.mount("none", str(folder), "hostfs", host_folder)
    os.chdir(folder)
    (folder / "booted").write_text(Path("/proc/version").read_text())


def _work(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    if os.getpid() != 1:
        system.die_with_parent(signal.SIGTERM)
        signal.signal(signal.SIGTERM, _terminated)
    system.allow_files()
    for path in job["modules"]:
        system.load_module(path)
    try:
        applied = network.build(job)
        (folder / "built").write_text("")
        programs = Programs(job, folder)
        try:
            programs.start()
            programs.wait()
            stopped, end_s = _Run(folder, job, programs.check).conduct()
        finally:
            programs.end()
        applied |= network.read_back(job)
        if job["namespaces"]:
            failed = json.loads((folder / "neighbours.json").read_text())
            applied["neighbours_failed"] = failed
    finally:
        network.remove(job["namespaces"])
    done = {"stopped": stopped, "end_s": end_s, "applied": applied}
    _write(folder / "done.json", done)


def _terminated(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


class _Run:
    """The processes of a run."""

    def __init__(self, folder: Path, job: Mapping[str, Any], check: Callable[[], None]) -> None:
        """`check` raises NetworkError if a server has ended."""
        self._check = check
        self._folder = folder
        self._job = job
        # Every process is ready by this time. Several machines agree on a time.
        now = time.monotonic()
        self._origin = job.get("origin_s", now + job.get("lead_s", 0.0))
        self._realtime = time.time() + self._origin - now
        self._stop, self._ending = os.pipe()
        self._children: dict[int, str] = {}

    def conduct(self) -> tuple[str, float]:
        """Conducts the run to its end; returns why it ended, and when."""
        live = Live(self._job["live"], self._folder, self._origin)
        try:
            if self._job["namespaces"]:
                self._fork("neighbours", self._neighbours)
            if self._job["changes"]:
                self._fork("changes", self._changes)
            if self._job["captures"]:
                self._fork("captures", self._captures)
            for name in ("queues", "links"):
                if self._job["samples"][name] is not None:
                    self._fork(name, self._samples(self._job["samples"][name]))
            (self._folder / "ready").write_text(str(time.monotonic() - self._origin))
            return self._wait(live)
        finally:
            live.kill()
            os.close(self._ending)
            self._reap()

    def _wait(self, live: Live) -> tuple[str, float]:
        duration = self._job["duration_s"]
        shown_s = -1
        while True:
            now = time.monotonic() - self._origin
            ended = live.ended()
            if ended is not None:
                self._check()
                return ended
            if (self._folder / "stop").exists():
                return live.end()
            if int(now) > shown_s:
                shown_s = int(now)
                (self._folder / "progress").write_text(str(shown_s))
            self._look()
            self._check()
            time.sleep(max(LOOK_S, min(TICK_S, duration - now)))

    def _look(self) -> None:
        """Notes processes that have ended.

        Raises:
            NetworkError: One of them failed.
        """
        for pid, name in list(self._children.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self._children[pid]
                if status:
                    raise network.NetworkError(self._why(name))

    def _why(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / f"{name}.failed").read_text()
        return f"something ended the process {name}"

    def _reap(self) -> None:
        """Waits until all processes have written their rows; ends those that do not."""
        deadline = time.monotonic() + 60.0
        while self._children and time.monotonic() < deadline:
            for pid in list(self._children):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self._children[pid]
            time.sleep(LOOK_S)
        for pid in self._children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _fork(self, name: str, work: Callable[[Loop], Callable[[], Any]]) -> int:
        """Forks a process for `work`. What `work` returns gives the rows when the loop stops."""
        child = os.fork()
        if child:
            self._children[child] = name
            return child
        code = 1
        try:
            system.die_with_parent(signal.SIGKILL)
            os.close(self._ending)
            loop = Loop(self._origin)
            loop.on_readable(self._stop, loop.stop)
            rows = work(loop)
            loop.at(self._job["duration_s"], loop.stop)
            loop.run()
            _write(self._folder / f"{name}.json", rows())
            code = 0
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
            if isinstance(error, OSError):
                # For example, a port is taken.
                why = (error.strerror or str(error)).lower()
            elif isinstance(error, (network.NetworkError, RuntimeError)):
                why = str(error)
            (self._folder / f"{name}.failed").write_text(f"{name}: {why}")
            (self._folder / f"{name}.traceback").write_text(traceback.format_exc())
        finally:
            os._exit(code)

    def _changes(self, loop: Loop) -> Callable[[], Any]:
        for each in self._job["changes"]:
            loop.at(each["at_s"], partial(network.change, each["namespace"], each["commands"]))
        return lambda: []

    def _neighbours(self, loop: Loop) -> Callable[[], Any]:
        made = Neighbours(self._job["namespaces"], loop)
        return lambda: made.failed

    def _captures(self, loop: Loop) -> Callable[[], Any]:
        return Captures(self._job["captures"], self._folder, loop, self._realtime).end

    def _samples(self, queues: Mapping[str, Any]) -> Callable[[Loop], Callable[[], Any]]:
        def work(loop: Loop) -> Callable[[], Any]:
            made = Sampler(queues, loop)
            made.start()
            return lambda: {
                "gaps": made.gaps,
                "rows": columns(made.rows),
                "processor": columns(made.processor),
            }

        return work


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Converts rows with the same keys to columns."""
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def _write(path: Path, value: Any) -> None:
    """Writes a JSON file, whole or not at all."""
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(value))
    beside.rename(path)
