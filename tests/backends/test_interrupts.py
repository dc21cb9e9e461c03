"""Futures are collected in the order they end, and the wait for them can be interrupted."""

import signal
from collections.abc import Iterator
from concurrent.futures import Future
from types import FrameType

import pytest

from narrows.backends.interrupts import as_ended


def test_futures_come_in_the_order_they_end() -> None:
    first, second, third = futures = [Future[int]() for _ in range(3)]
    second.set_result(2)
    ended = as_ended(futures)
    assert next(ended) is second
    third.cancel()
    assert next(ended) is third
    first.set_exception(ValueError("one"))
    assert [future.exception() is not None for future in ended] == [True]


@pytest.fixture
def alarm() -> Iterator[None]:
    """An interrupt while the test waits."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_an_interrupt_ends_the_wait() -> None:
    with pytest.raises(KeyboardInterrupt):
        next(as_ended([Future[int]()]))
