"""A program as a backend: a simulator with the user's own components (docs/extending.md).

The backend's name is `program:` and the command that starts the program. The program gets the plan
and returns the same results as the compiled simulator. crates/engine describes the messages.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from narrows.backends.backend import Backend, BackendError, Progress, Refusal
from narrows.backends.sim import run_sim
from narrows.builds import THIS
from narrows.results import Run
from narrows.results.foreign import PROGRAM

if TYPE_CHECKING:
    from narrows.scenario import Scenario


def backend(name: str) -> Backend:
    """The backend of that name, which begins with `program:`.

    Raises:
        BackendError: The command is empty, or a quotation mark in it is not closed.
    """
    try:
        command = shlex.split(name.removeprefix(PROGRAM))
    except ValueError as error:
        raise BackendError("backend", f"{name!r}: {str(error).lower()}") from None
    if not command:
        raise BackendError("backend: program", "names no program", "program:target/release/mine")
    return Backend(name, partial(_run, name, command), _refusals)


def _refusals(scenario: Scenario) -> Sequence[Refusal]:
    if not scenario.monitor.capture:
        return ()
    return [Refusal("monitor.capture", "a program captures no packets")]


def _run(
    name: str,
    command: Sequence[str],
    scenario: Scenario,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    event_limit: int | None = None,
) -> Run:
    programs: list[_Program] = []

    def engine(plan: str) -> _Program:
        programs.append(_Program(command))
        programs[-1].begin(plan)
        return programs[-1]

    try:
        return run_sim(
            scenario,
            seed=seed,
            progress=progress,
            event_limit=event_limit,
            engine=engine,
            backend=name,
        )
    except (ValueError, pl.exceptions.PolarsError) as error:
        # It is not a table; for example, its columns may have different lengths.
        raise BackendError(command[0], str(error).splitlines()[0]) from None
    finally:
        for program in programs:
            program.end()


class _Program:
    """A run in a program, as a `narrows.backends.sim.Engine`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._name = command[0]
        self._state: Mapping[str, Any] = {
            "now_s": 0.0,
            "progress": 0.0,
            "events": 0,
            "stopped": "running",
        }
        try:
            # Ctrl-C goes to this process, which then stops the program's run and reads its tables.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise BackendError(self._name, why, "is it built?") from None

    def begin(self, plan: str) -> None:
        """Sends the plan to the program."""
        reply = self._ask(plan)
        if "error" in reply:
            raise BackendError(self._name, str(reply["error"]))
        theirs = reply.get("ok")
        if theirs != THIS:
            raise BackendError(
                self._name,
                f"was built with narrows {theirs}, but this is {THIS}",
                "build it again; if it is the newer one, build narrows again",
            )

    def end(self) -> None:
        """Ends the program, and waits for it."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        try:
            self._process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def now_s(self) -> float:
        return float(self._state["now_s"])

    @property
    def progress(self) -> float:
        return float(self._state["progress"])

    @property
    def events(self) -> int:
        return int(self._state["events"])

    @property
    def stopped(self) -> str:
        return str(self._state["stopped"])

    def advance(self, max_events: int) -> bool:
        self._take(self._ask(json.dumps({"advance": max_events})))
        return self.stopped != "running"

    def interrupt(self) -> None:
        self._take(self._ask('"interrupt"'))

    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        reply = self._ask('"tables"')
        try:
            return {
                table["name"]: {
                    column["name"]: self._column(column["type"], column["bytes"])
                    for column in table["columns"]
                }
                for table in reply["tables"]
            }
        except (KeyError, TypeError, ValueError):
            raise self._nonsense() from None

    def capture(self, number: int) -> bytes:
        raise BackendError(self._name, "captures no packets")

    def _column(self, type: str, size: int) -> Any:
        assert self._process.stdout is not None, "it has a pipe"
        data = self._process.stdout.read(size)
        if len(data) != size:
            raise self._gone()
        if type == "string":
            return json.loads(data)
        return np.frombuffer(data, dtype=_TYPES[type])

    def _take(self, state: Mapping[str, Any]) -> None:
        if not self._state.keys() <= state.keys():
            raise self._nonsense()
        self._state = state

    def _ask(self, line: str) -> Mapping[str, Any]:
        assert self._process.stdin is not None, "it has a pipe"
        assert self._process.stdout is not None, "it has a pipe"
        try:
            # A program that has ended may have sent its reason before, so read its answer.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            raise self._gone() from None
        if not answer.endswith(b"\n"):
            raise self._gone()
        try:
            reply = json.loads(answer)
        except ValueError:
            raise self._nonsense() from None
        if not isinstance(reply, dict):
            raise self._nonsense()
        return reply

    def _nonsense(self) -> BackendError:
        return BackendError(
            self._name, "its standard output is not an answer", "print to standard error"
        )

    def _gone(self) -> BackendError:
        try:
            code = self._process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return BackendError(self._name, "stopped answering")
        return BackendError(self._name, f"ended (exit code {code}) before the run did")


_PATIENCE_S = 10.0

_TYPES = {"f64": "<f8", "u64": "<u8", "u32": "<u4", "u8": "u1", "bool": "?"}
