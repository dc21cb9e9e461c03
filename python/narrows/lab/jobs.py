"""What this machine computes for the page besides single runs: run folders, sweeps, kernel runs.

Each job is a process of its own (work.py), because it may need all cores, root, or minutes, and
because a page that is left must end it. The page names an example and the settings of its knobs; it
cannot name a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError
from narrows.lab.work import LENGTH_BYTES
from narrows.scenario import Scenario, examples
from narrows.starting import start_of

if TYPE_CHECKING:
    from narrows.backends.outside import Outside

MOST_BYTES = 1 << 16
"""The longest request for a job."""

_PATIENCE_S = 30.0
"""How long a job may take to end. A kernel removes its namespaces first."""
_TURN_S = _PATIENCE_S + 5
"""How long a job waits for the end of the one before it, which may need all its patience."""
_LOOK_S = 0.2
"""How often a job that waits looks whether its page is still there."""

_START = start_of("narrows.lab.work")
# A sweep has all cores, and a kernel in real time wants them for itself.
_KINDS = {"folder": "folder", "sweep": "cores", "kernel": "cores"}
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a request raises that is not as it should be, with infinite numbers and deep lists, too."""


class Busy(NarrowsError):  # noqa: N818 - named after what happened
    """Another job is under way."""


class Jobs:
    """The jobs of a server.

    Args:
        scenario: The user's, besides the examples.
        parts: Parts of the user's own, which that scenario has.
    """

    def __init__(self, scenario: Path | Scenario | None, parts: Outside | None) -> None:
        self._parts = parts
        self._own = ""
        self._sources: dict[str, Mapping[str, Any]] = {
            each.name: {"path": str(each.path)} for each in examples()
        }
        if scenario is not None:
            self._own, source = _source(scenario)
            self._sources[self._own] = source
        self._turns = {name: threading.Lock() for name in _KINDS.values()}
        self._under_way: set[socket.socket] = set()
        self._closed = False

    @contextlib.contextmanager
    def run(self, request: bytes, page: socket.socket) -> Iterator[socket.socket]:
        """Starts a job and yields a socket with its messages. On leaving, the job ends.

        Args:
            request: The page's.
            page: The connection that brought it, which says nothing else until its page is gone.

        Raises:
            ConnectionAbortedError: The page was gone before the job's turn.
            NarrowsError: The request is no job, the scenario's parts cannot travel, or no process
                can be started.
            Busy: Another job of the kind is under way, or the server ends.
        """
        kind, text = self._checked(request)
        turn = self._turns[_KINDS[kind]]
        if not _acquired(turn, page):
            raise Busy(f"another {'run folder' if kind == 'folder' else 'sweep or kernel run'}")
        try:
            ours, theirs = socket.socketpair()
            # Before there is a process, so that `close` misses none.
            self._under_way.add(ours)
            job = None
            try:
                job = self._started(theirs)
                with contextlib.suppress(OSError):
                    ours.sendall(len(text).to_bytes(LENGTH_BYTES, "little") + text)
                yield ours
            finally:
                self._under_way.discard(ours)
                ours.close()
                if job:
                    _end(job)
        finally:
            turn.release()

    def _started(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        """The process of a job, with this end of a socket."""
        with theirs:
            if self._closed:
                raise Busy("the end of the server")
            try:
                return subprocess.Popen(
                    [sys.executable, "-P", "-c", _START, json.dumps(sys.path)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C is for the server, whose end ends this.
                )
            except OSError as error:
                raise NarrowsError(f"the job cannot start: {error.strerror}") from None

    def close(self) -> None:
        """Ends all jobs; no other can start."""
        self._closed = True
        for each in list(self._under_way):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _checked(self, request: bytes) -> tuple[str, bytes]:
        """The kind of a job, and what `work.py` gets."""
        try:
            asked = json.loads(request)
            kind, name, settings = asked["job"], asked["example"], asked["settings"]
            source = self._sources[name]
            made = {
                "job": kind,
                "scenario": source,
                "settings": {str(key): str(text) for key, text in settings.items()},
                "plugins": [],
            }
            _KINDS[kind]
            if kind == "sweep":
                made |= {"knob": str(asked["knob"]), "seeds": int(asked["seeds"])}
        except MALFORMED as error:
            raise NarrowsError(f"the request is no job: {error!r:.100}") from None
        if self._parts and name == self._own:
            if self._parts.queues or self._parts.controls:
                raise NarrowsError(
                    "classes of your own run in the page's own runs only; hint: narrows.run and "
                    "narrows.sweep take them in Python"
                )
            made["plugins"] = [str(path) for path in self._parts.plugins]
        return kind, json.dumps(made).encode()


def _acquired(turn: threading.Lock, page: socket.socket) -> bool:
    """Whether it is a job's turn, soon enough.

    Raises:
        ConnectionAbortedError: The page is gone.
    """
    end = time.monotonic() + _TURN_S
    while (left := end - time.monotonic()) > 0:
        if turn.acquire(timeout=min(left, _LOOK_S)):
            return True
        if select.select([page], [], [], 0)[0]:
            raise ConnectionAbortedError
    return False


def _source(scenario: Path | Scenario) -> tuple[str, Mapping[str, Any]]:
    """The name of the user's scenario on the page, and where `work.py` finds it."""
    if isinstance(scenario, Scenario):
        return scenario.name, {"values": scenario.written()}
    return scenario.stem, {"path": str(scenario.absolute())}


def _end(job: subprocess.Popen[bytes]) -> None:
    """Waits until a job has ended; it knows that nobody reads its messages any more."""
    try:
        job.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        # Workers of a sweep end with their input; a kernel's namespaces may stay.
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
