"""Exit codes, and how failures become lines on stderr.

====  ========================================================================================
code  meaning
====  ========================================================================================
0     done; a published claim that fails is a finding, and so also 0
1     the command failed: a run ended early (event limit), or a run of a reproduction failed
2     bad input: a file, key, option or folder that the user must fix; nothing was overwritten
130   interrupted (Ctrl-C); partial results are written and marked as partial
====  ========================================================================================
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path

from narrows.cli.arguments import with_options
from narrows.errors import NarrowsError, one_line
from narrows.foreign_text import printable


class Exit(IntEnum):
    """What the command returns to the shell."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


class UserError(NarrowsError):
    """Bad input that the command line itself finds; the message is one line."""


def report(error: BaseException, arguments: Sequence[str] = ()) -> Exit:
    """Prints a line on stderr for `error` and each of `error.others`; returns the exit code.

    An unexpected error is a bug, unless the command reads a folder that is not as narrows wrote it:
    what is read is checked, but whoever edits a folder can make its parts contradict each other.
    """
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone (`narrows ... | head`). The rest of the buffer goes to
        # /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    # If pydantic is interrupted while it builds a model, it raises an error of its own.
    if isinstance(error, KeyboardInterrupt) or _caused_by_interrupt(error):
        say("interrupted")
        return Exit.INTERRUPTED
    if isinstance(error, OSError):
        say(f"error: {_system(error)}")
        return Exit.BAD_INPUT
    if isinstance(error, NarrowsError):
        for each in (error, *error.others):
            say(f"error: {' '.join(str(each).split())}")
        return Exit.BAD_INPUT
    if isinstance(error, MemoryError):
        say("error: out of memory; hint: make the run shorter or use fewer monitors")
        return Exit.FAILED
    what = one_line(f"{type(error).__name__}: {error}")
    changed = _changed_folder(arguments)
    if changed:
        why = f"its parts do not fit together ({what}), and narrows did not write it so"
        say(f"error: {one_line(changed)}: {why}; hint: run again, or use the narrows that wrote it")
        return Exit.BAD_INPUT
    hint = "please report it with the traceback that NARROWS_TRACEBACK=1 shows"
    say(f"error: a bug in narrows: {what}; hint: {hint}")
    return Exit.FAILED


def _caused_by_interrupt(error: BaseException) -> bool:
    return type(error).__name__ == "SchemaError" and "KeyboardInterrupt" in str(error)


def say(text: str) -> None:
    """Prints a line on stderr, in which arguments of the API become options.

    If stderr cannot be written, the exit code must be enough.
    """
    with contextlib.suppress(OSError):
        print(printable(with_options(text), kept="\n"), file=sys.stderr)


@contextlib.contextmanager
def terminations_as_interrupts() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP end the block as Ctrl-C does, so that measurements are kept."""
    changed = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # If they are ignored, as under nohup, they stay ignored.
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
                changed.append(number)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def open_standard_streams() -> None:
    """Opens /dev/null for standard streams that the caller has closed (`narrows ... >&-`).

    Python sets them to None, and the next file that is opened would get their descriptor.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.dup(descriptor)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


_SPACE = "free some space or choose another folder with --out"


def _system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    what = (error.strerror or str(error) or type(error).__name__).lower()
    hints = {
        errno.ENOSPC: _SPACE if error.filename else "stdout goes to a full disk",
        errno.EDQUOT: _SPACE if error.filename else "stdout goes to a full disk",
        errno.EACCES: "choose a place where you may read and write",
        errno.EROFS: "choose a place where you may read and write",
        errno.ENOENT: "check the path",
        errno.ENOTDIR: "name a folder",
        errno.EISDIR: "name a file",
    }
    hint = hints.get(error.errno or 0)
    return printable(f"{where}{what}" + (f"; hint: {hint}" if hint else ""))


def _changed_folder(arguments: Sequence[str]) -> str:
    """The first argument that is a folder of results and not as narrows wrote it; empty if none."""
    from narrows.results.folder import is_as_written

    for word in arguments:
        path = Path(word.rpartition("=")[2])
        with contextlib.suppress(OSError, ValueError):
            if any((path / name).is_file() for name in _RESULTS) and not is_as_written(path):
                return str(path)
    return ""


_RESULTS = ("run.json", "sweep.json", "ratio.json", "record.json", "study.json")
