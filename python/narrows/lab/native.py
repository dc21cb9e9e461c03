"""Runs plans with parts of the user's own for the page, as `web/worker.mjs` does with all others.

Each run has a process of its own, so that another move of a knob ends it whatever the user's code
does, and so that compiled code that crashes takes only its run with it. The processes are forks,
which have every part as it is: classes of a notebook and compiled functions, too. They are forks of
a process that is made before the server starts its threads.

A run gets the page's request as JSON and answers with messages: a line of JSON, in which `bytes`
says how many bytes of tables follow, written as `narrows_engine::write_tables` does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from narrows.backends.sim import failure_of
from narrows.lab.jobs import MALFORMED
from narrows.lab.own import placed

if TYPE_CHECKING:
    from narrows import _core
    from narrows.backends.outside import Outside

_MOST_EVENTS = 30_000_000
_MOST_S = 60.0
_PATIENCE_S = 1.0
"""How much longer than its limit a run may take to return from the user's code."""

# As in web/worker.mjs.
_FIRST_S = 0.04
_GROWTH = 2.0
_SLICE_S = 0.02

_LENGTH_BYTES = 8


class Processes:
    """Starts processes that run plans with these parts."""

    def __init__(self, parts: Outside) -> None:
        self._starts, theirs = socket.socketpair()
        with warnings.catch_warnings():
            # A notebook has threads, which Python 3.12 warns about.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                self._starts.close()
                _start_runs(theirs, parts)
            os._exit(0)
        theirs.close()
        self._child = child

    def run(self, request: bytes) -> socket.socket:
        """Starts a run. What is read from the socket are its messages; closing it ends the run.

        Raises:
            OSError: The process that starts runs is gone.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._starts, [b"."], [theirs.fileno()])
            ours.sendall(len(request).to_bytes(_LENGTH_BYTES, "little") + request)
        except OSError:
            ours.close()
            raise
        return ours

    def close(self) -> None:
        """Starts no more runs."""
        self._starts.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._child, 0)


def _start_runs(starts: socket.socket, parts: Outside) -> None:
    """Forks for each socket that arrives, until the server is gone."""
    # Ctrl-C is for the server, whose end ends this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        _, descriptors, _, _ = socket.recv_fds(starts, 1, 1)
        if not descriptors:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            starts.close()
            _Run(socket.socket(fileno=descriptors[0]), parts).answer()
            os._exit(0)
        os.close(descriptors[0])


class _Run:
    """A run, in a process of its own."""

    def __init__(self, page: socket.socket, parts: Outside) -> None:
        self._page = page
        self._parts = parts
        self._saying = threading.Lock()

    def answer(self) -> None:
        """Reads a request and answers it."""
        with contextlib.suppress(OSError):
            try:
                request = json.loads(
                    self._read(int.from_bytes(self._read(_LENGTH_BYTES), "little"))
                )
                plan, parts = placed(request["plan"], self._parts)
                most = min(int(request["limits"]["events"]), _MOST_EVENTS)
                within = min(float(request["limits"]["ms"]) / 1000, _MOST_S)
                story = request.get("story")
                until = None if story is None else (int(story["query"]), float(story["until_s"]))
            except MALFORMED as error:
                self._say({"state": "refused", "why": f"the request is no run: {error!r:.100}"})
                return
            threading.Thread(target=self._watch, args=(within,), daemon=True).start()
            try:
                simulation = parts.engine(json.dumps(plan))
            except Exception as error:
                why = str(error) if isinstance(error, ValueError) else _printed(error)
                self._say({"state": "refused", "why": why})
                return
            self._drive(simulation, most, within, until)

    def _drive(
        self,
        simulation: _core.Simulation,
        most: int,
        within: float,
        story: tuple[int, float] | None,
    ) -> None:
        """Advances to the end in short slices, and shows the first tables soon."""
        begun = time.perf_counter()
        until, events, failed = begun + _FIRST_S, 2_000, ""
        while True:
            clock = time.perf_counter()
            done = False
            try:
                done = simulation.advance(events)
            except Exception as error:
                _printed(error)
                failed = failure_of(simulation, error)
            now = time.perf_counter()
            faster = _SLICE_S / max(now - clock, 1e-3)
            events = max(1_000, min(1_000_000, int(events * faster)))
            why = failed
            if not why and simulation.events >= most:
                why = f"stopped after {most / 1e6:g} million events"
            elif not why and now - begun >= within:
                why = f"stopped after {within:g} s"
            if story and (done or why or simulation.now_s >= story[1]):
                packets = simulation.written(story[0])
                self._say({"state": "done", "why": why, "failed": bool(failed)}, packets)
                return
            if not story and (done or why or now >= until):
                until = now + (now - begun) * _GROWTH
                facts = {
                    "state": "done" if done or why else "running",
                    "why": why,
                    "failed": bool(failed),
                    "ms": (now - begun) * 1000,
                    "now_s": simulation.now_s,
                    "events": simulation.events,
                    "progress": simulation.progress,
                }
                self._say(facts, simulation.written())
                if done or why:
                    return

    def _watch(self, within: float) -> None:
        """Ends the process when the page wants the run no more, or if the user's code blocks."""
        wanted = not select.select([self._page], [], [], within + _PATIENCE_S)[0]
        if wanted:
            with contextlib.suppress(OSError):
                why = f"stopped after {within:g} s: the code of a part of your own does not return"
                self._say({"state": "refused", "why": why, "failed": True})
        os._exit(0)

    def _say(self, facts: dict[str, Any], tables: bytes = b"") -> None:
        head = json.dumps({**facts, "bytes": len(tables)}).encode()
        with self._saying:
            self._page.sendall(head + b"\n" + tables)

    def _read(self, length: int) -> bytes:
        read = bytearray()
        while len(read) < length:
            more = self._page.recv(length - len(read))
            if not more:
                raise ValueError("it ends early")
            read += more
        return bytes(read)


def _printed(error: Exception) -> str:
    """Prints an exception's traceback for the terminal, and returns its line for the page."""
    traceback.print_exception(error)
    sys.stderr.flush()
    return traceback.format_exception_only(error)[-1].strip().replace("\n", " ")
