"""Starts narrows-live, which plays the applications of the plan, and ends it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import system
from .network import NetworkError

__all__ = ["TABLES", "Live"]

TABLES = "live.tables"
"""The file of its results: a line about the end, and the tables."""

_END_S = 60.0


class Live:
    """The running program."""

    def __init__(self, part: Mapping[str, Any], folder: Path, origin_s: float) -> None:
        """Starts it, and waits until it is ready.

        Args:
            part: The job's part on it: the program, the version and build that it must have, and
                the files of the plan and the places.
            folder: The workspace, which has these files.
            origin_s: The start of the run, by `CLOCK_MONOTONIC`.

        Raises:
            NetworkError: It refuses the plan, is of another build, or cannot start.
        """
        self._folder = folder
        words = [part["program"], part["plan"], "--places", part["places"], "--prepared"]
        words += ["--real", part["real"], "--start", repr(origin_s), "--out", TABLES]
        words += part["arguments"]
        try:
            with (folder / "live.log").open("wb") as log:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=folder,
                    preexec_fn=_with_its_parent,
                )
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise NetworkError(f"{part['program']}: {why}") from None
        assert self._process.stdout is not None, "it has a pipe"
        # It says nothing more.
        with self._process.stdout as output:
            said = output.readline()
        if not said:
            self._process.wait()
            raise NetworkError(self._why())
        theirs = _narrows(said)
        if theirs != part["narrows"]:
            self.kill()
            raise NetworkError(
                f"{part['program']}: is of narrows {theirs}, but this is {part['narrows']} "
                "(make setup builds both)"
            )

    def ended(self) -> tuple[str, float] | None:
        """Why and when its run ended; None if it has not.

        Raises:
            NetworkError: It failed.
        """
        if self._process.poll() is None:
            return None
        if self._process.returncode:
            raise NetworkError(self._why())
        with (self._folder / TABLES).open("rb") as file:
            state = json.loads(file.readline())
        return state["stopped"], state["now_s"]

    def end(self) -> tuple[str, float]:
        """Ends the run early.

        Raises:
            NetworkError: It fails, or does not end.
        """
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise NetworkError(f"narrows-live did not end within {_END_S:g} s") from None
        ended = self.ended()
        assert ended is not None, "it was waited for"
        return ended

    def kill(self) -> None:
        """Ends the process without its results."""
        self._process.kill()
        self._process.wait()

    def _why(self) -> str:
        said = (self._folder / "live.log").read_text(errors="replace").strip()
        if not said:
            return f"narrows-live ended with {self._process.returncode}"
        return said.splitlines()[-1].removeprefix("error: ")


def _narrows(said: bytes) -> str:
    """The version and build in the line with which the program says that it is ready."""
    try:
        return str(json.loads(said)["ready"])
    except (ValueError, KeyError, TypeError):
        return "of an unknown version"


def _with_its_parent() -> None:
    system.die_with_parent(signal.SIGKILL)
