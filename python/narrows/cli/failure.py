"""Exit codes, and how failures become lines on stderr.

====  ========================================================================================
code  meaning
====  ========================================================================================
0     done; a published claim that fails is a finding, and so also 0
1     what was asked for failed: a run ended early (event limit), a run of a reproduction failed
2     bad input: a file, key, option or folder that has to be mended; nothing was overwritten
130   interrupted (Ctrl-C); what had been measured until then is written and says so
====  ========================================================================================
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from enum import IntEnum

from narrows.errors import NarrowsError


class Exit(IntEnum):
    """What the command returns to the shell."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


class UserError(NarrowsError):
    """Bad input that the command line itself finds; the message is one line."""


def report(error: BaseException) -> Exit:
    """Prints one line for `error` and for each of its others on stderr; returns the exit code."""
    if isinstance(error, BrokenPipeError):
        # The reader of our output has gone (`narrows ... | head`); what is still buffered has
        # nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    # pydantic, interrupted while it builds a model, raises an error of its own about it.
    if isinstance(error, KeyboardInterrupt) or _caused_by_interrupt(error):
        say("interrupted")
        return Exit.INTERRUPTED
    if isinstance(error, OSError):
        say(f"error: {_system(error)}")
        return Exit.BAD_INPUT
    if isinstance(error, NarrowsError):
        for each in (error, *error.others):
            say(f"error: {_one_line(str(each))}")
        return Exit.BAD_INPUT
    if isinstance(error, MemoryError):
        say("error: out of memory; hint: a shorter run or fewer monitors need less")
        return Exit.FAILED
    what = _one_line(f"{type(error).__name__}: {error}")
    hint = "please report it with what NARROWS_TRACEBACK=1 shows"
    say(f"error: a defect in narrows: {what}; hint: {hint}")
    return Exit.FAILED


def _caused_by_interrupt(error: BaseException) -> bool:
    return type(error).__name__ == "SchemaError" and "KeyboardInterrupt" in str(error)


def say(text: str) -> None:
    """Prints a line on stderr. If stderr cannot be written, the exit code must be enough."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


@contextlib.contextmanager
def terminations_as_interrupts() -> Iterator[None]:
    """While the block runs, SIGTERM and SIGHUP end it as Ctrl-C does: what is measured is kept."""
    changed = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # If they are ignored (nohup), there is a reason for it.
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
                changed.append(number)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def open_standard_streams() -> None:
    """Gives streams that the caller has closed (`narrows ... >&-`) somewhere to go.

    Python has None for them, and the next file that is opened would take their place.
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
        errno.ENOSPC: _SPACE if error.filename else "stdout goes to a place that is full",
        errno.EDQUOT: _SPACE if error.filename else "stdout goes to a place that is full",
        errno.EACCES: "choose a place that you may read and write",
        errno.EROFS: "choose a place that you may read and write",
        errno.ENOENT: "check the path",
    }
    hint = hints.get(error.errno or 0)
    return _one_line(f"{where}{what}" + (f"; hint: {hint}" if hint else ""))


def _one_line(text: str) -> str:
    return " ".join(text.split())
