"""Slots for guests: at most one guest per core, across all of a user's programs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence

from narrows.backends.backend import BackendError
from narrows.private import open_lock, private_folder

_LOOK_S = 0.1


@contextlib.contextmanager
def slot(count: int, waiting: Callable[[], object]) -> Iterator[int]:
    """Holds one of `count` slots. A slot becomes free when its process ends, however that happens.

    Yields the slot's number, from 0.

    Args:
        count: How many slots there are.
        waiting: Called while no slot is free; its exceptions propagate.

    Raises:
        BackendError: The files of the slots cannot be made.
    """
    with contextlib.ExitStack() as stack:
        files = []
        try:
            folder = private_folder("slots")
            for number in range(count):
                files.append(open_lock(folder / f"{number}"))
                stack.callback(os.close, files[-1])
        except OSError as error:
            raise BackendError.of_private(error) from None
        while (found := _first(files)) is None:
            waiting()
            time.sleep(_LOOK_S)
        yield found


def _first(files: Sequence[int]) -> int | None:
    """Takes the first free slot, and returns its number; None if none is free."""
    return next((number for number, file in enumerate(files) if _take(file)), None)


def _take(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
