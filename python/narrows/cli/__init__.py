"""The command `narrows`: a few lines over the Python API for each of its verbs."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; see `narrows.cli.app.main`."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        # While modules load there is nothing to save, and an exception would show their insides.
        signal.signal(signal.SIGINT, lambda *_: _leave())
    try:
        from narrows.cli.app import main as run
    finally:
        signal.signal(signal.SIGINT, before)
    return run(arguments)


def _leave() -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)
