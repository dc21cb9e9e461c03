"""Holds interrupts back until a run's results are safe, and stops runs from outside."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Stopped(RuntimeError):  # noqa: N818 - a signal, not an error
    """Raised inside a run that its caller no longer wants."""


def until(stop: threading.Event) -> Callable[[object], None]:
    """A `progress` callback that ends its run with `Stopped` once the event is set."""

    def watch(_: object) -> None:
        if stop.is_set():
            raise Stopped("interrupted")

    return watch


def as_ended(futures: Iterable[Future[T]]) -> Iterator[Future[T]]:
    """Futures in the order in which they end. An interrupt while it waits is a KeyboardInterrupt.

    In `concurrent.futures.as_completed`, a second interrupt can come while the lock is being taken
    again (CPython 3.11, `threading.Condition.wait`), which turns it into a RuntimeError.
    """
    ended: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    waiting = list(futures)
    for future in waiting:
        future.add_done_callback(ended.put)
    for _ in waiting:
        yield ended.get()


class Held:
    """Interrupts that have arrived but are not handled yet."""

    def __init__(self) -> None:
        self._waiting: list[int] = []
        self.raising = False
        """Whether an interrupt is raised at once, because somebody else's Python code runs."""

    def take(self) -> bool:
        """Whether an interrupt has arrived since the last call; this marks it as handled."""
        came = bool(self._waiting)
        self._waiting.clear()
        return came

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.raising:
            self.raising = False
            raise KeyboardInterrupt
        self._waiting.append(number)


@contextmanager
def held() -> Iterator[Held]:
    """Holds back signals with a Python handler while the block runs, and delivers them afterwards.

    A Ctrl-C between the end of a simulation and the last file of its folder would lose the run, and
    an exception in the wrong place in the extension would be a panic. This does nothing outside the
    main thread, because Python never delivers signals to other threads.
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
