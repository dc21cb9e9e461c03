"""Interrupts that are held back until a run's results are safe, and runs that end from outside."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

__all__ = ["Held", "Stopped", "as_ended", "held", "until"]

T = TypeVar("T")


class Stopped(RuntimeError):  # noqa: N818 - a signal, not an error
    """Raised inside a run when whoever started it no longer wants it."""


def until(stop: threading.Event) -> Callable[[object], None]:
    """What to give a run as `progress`, so that it ends with `Stopped` once the event is set."""

    def watch(_: object) -> None:
        if stop.is_set():
            raise Stopped("interrupted")

    return watch


def as_ended(futures: Iterable[Future[T]]) -> Iterator[Future[T]]:
    """Futures in the order in which they end; an interrupt while it waits is a KeyboardInterrupt.

    A second interrupt in `concurrent.futures.as_completed` comes while it takes its lock again
    (CPython 3.11, `threading.Condition.wait`), and is then a RuntimeError.
    """
    ended: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    waiting = list(futures)
    for future in waiting:
        future.add_done_callback(ended.put)
    for _ in waiting:
        yield ended.get()


class Held:
    """Interrupts that have come and have not been handled yet."""

    def __init__(self) -> None:
        self._waiting: list[int] = []

    def take(self) -> bool:
        """Whether an interrupt has come since the last call; it then counts as handled."""
        came = bool(self._waiting)
        self._waiting.clear()
        return came

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._waiting.append(number)


@contextmanager
def held() -> Iterator[Held]:
    """Holds back signals that have a Python handler while the block runs, and delivers them after.

    A Ctrl-C between the end of a simulation and the last file of its folder would lose the run, and
    an exception in the wrong place of the extension would be a panic. In threads other than the
    main one, where Python never delivers signals, this does nothing.
    """
    waiting = Held()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and callable(signal.getsignal(number)):
                before[number] = signal.getsignal(number)
    try:
        for number in before:
            signal.signal(number, waiting._note)
        yield waiting
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if waiting._waiting:
        signal.raise_signal(waiting._waiting[0])
