"""The command `narrows`: each of its verbs is a thin layer over the Python API."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from narrows.starting import collect_rarely

__all__ = ["main"]

INTERRUPTED = 130
"""The exit code that shells use after Ctrl-C; `narrows.cli.failure.Exit` lists all codes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; see `narrows.cli.app.main`."""
    if arguments is None:
        collect_rarely()
        # Pydantic would search all installed packages for plugins, and OpenBLAS start a thread for
        # each core, which narrows would not use. Processes that this one starts, and code of the
        # user's own, inherit both. Who wants threads sets the variable.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        # While modules load, there is nothing to save. A traceback would only show internals.
        signal.signal(signal.SIGINT, lambda *_: _leave())
    try:
        from narrows.cli.app import main as run
    finally:
        signal.signal(signal.SIGINT, before)
    code = run(arguments)
    if arguments is None:
        # Python looks through everything once more before it ends, which takes a fifth of a short
        # command.
        gc.freeze()
        if code == INTERRUPTED:
            _exit_at_once(code)
    return code


def _exit_at_once(code: int) -> NoReturn:
    """Ends the process with `code`, after a Ctrl-C whose work is saved.

    CPython (3.11, Python/pythonrun.c, run_eval_code_obj) remembers an interrupt that came while it
    executed a string, which modules do to make dataclasses. The process then ends by the signal,
    whatever code `sys.exit` gets.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _leave() -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
