"""Places to run at: one guest a core at most, over all programs of a user that run any."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

__all__ = ["slot"]

_LOOK_S = 0.1


@contextlib.contextmanager
def slot(count: int, waiting: Callable[[], object]) -> Iterator[int]:
    """Holds one of so many places; a place is free again when its process ends, however it does.

    Yields its number, from 0.

    Args:
        count: How many places there are.
        waiting: Called while there is none; what it raises is passed on.
    """
    folder = Path(tempfile.gettempdir()) / f"narrows-slots-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context((folder / f"{number}").open("w")) for number in range(count)]
        while (found := _first(files)) is None:
            waiting()
            time.sleep(_LOOK_S)
        yield found


def _first(files: Sequence[IO[str]]) -> int | None:
    """The first place that is free, which is taken now."""
    return next((number for number, file in enumerate(files) if _take(file.fileno())), None)


def _take(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
