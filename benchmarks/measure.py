"""Runs a command as a child process and measures it.

It uses the standard library alone on purpose: on Linux, a child's peak memory starts from that of
its parent, so the measuring process has to be small.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """What one child process took and printed."""

    wall_s: float
    """From start to exit."""
    cpu_s: float
    """User and system time."""
    peak_mb: float
    """Largest resident set, in units of 10^6 bytes."""
    said: dict[str, Any]
    """The JSON object on its last line of output."""


class ChildError(Exception):
    """A child process failed, or its last line was not a JSON object."""


def run(command: Sequence[str], folder: Path | None = None) -> Outcome:
    """Runs a command to its end and measures it.

    Args:
        command: The program and its arguments.
        folder: Its working directory; None: the caller's.

    Returns:
        Time, memory and the object that it printed last.

    Raises:
        ChildError: It exited with another code than 0, or printed no JSON object.
    """
    with tempfile.TemporaryFile("w+") as output:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, cwd=folder)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except KeyboardInterrupt:
            child.kill()
            child.wait()
            raise
        wall_s = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if child.returncode != 0:
        raise ChildError(f"exit code {child.returncode}: {_shown(command)}")
    try:
        said = parse(text)
    except ValueError as why:
        raise ChildError(f"{why}: {_shown(command)}") from None
    # Kilobytes of 1024 bytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return Outcome(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6, said)


def _shown(command: Sequence[str]) -> str:
    """A command for a message; ns-2's has a word for each of hundreds of connections."""
    return textwrap.shorten(shlex.join(command), 300, placeholder=" ...")


def parse(output: str) -> dict[str, Any]:
    """The JSON object on the last line of a program's output.

    Raises:
        ValueError: There is no such object.
    """
    said = json.loads((output.splitlines() or [""])[-1])
    if not isinstance(said, dict):
        raise ValueError("the last line is no JSON object")
    return said


def narrows(*arguments: str) -> Outcome:
    """Runs `benchmarks/narrows_child.py` with this interpreter."""
    return run([sys.executable, str(HERE / "narrows_child.py"), *arguments])


def median(values: Iterable[float]) -> float:
    """The median; of an even number of values the mean of the two in the middle."""
    return statistics.median(values)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lines of text with columns aligned: the first to the left, the others to the right."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(["  " + line.rstrip() for line in lines])


def log(text: str) -> None:
    """Says on stderr what is going on; results go to stdout."""
    print(text, file=sys.stderr, flush=True)
