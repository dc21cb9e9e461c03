"""Places to run at: one guest a core at most, over all programs of a user that run any."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["slot"]

_LOOK_S = 0.1


@contextlib.contextmanager
def slot(count: int, waiting: Callable[[], object]) -> Iterator[None]:
    """Holds one of so many places; a place is free again when its process ends, however it does.

    Args:
        count: How many places there are.
        waiting: Called while there is none; what it raises is passed on.
    """
    folder = Path(tempfile.gettempdir()) / f"narrows-slots-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context((folder / f"{number}").open("w")) for number in range(count)]
        while not any(_take(file.fileno()) for file in files):
            waiting()
            time.sleep(_LOOK_S)
        yield


def _take(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
