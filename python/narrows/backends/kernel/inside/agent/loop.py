"""A minimal event loop for sockets and timers; each process of the agent has one."""

from __future__ import annotations

import contextlib
import heapq
import os
import select
import socket
import time
from collections.abc import Callable

from . import system


class Loop:
    """Calls back when sockets are ready and when timers are due.

    Times are seconds since the run's start: `CLOCK_MONOTONIC` minus `origin`. A kernel timer wakes
    the loop, because epoll's timeouts are whole milliseconds.
    """

    def __init__(self, origin: float) -> None:
        self.origin = origin
        self._poll = select.epoll()
        self._ready: dict[int, Callable[[], None]] = {}
        self._times: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._running = True
        self._timer = system.timer()
        self._armed: float | None = None
        self._poll.register(self._timer, select.EPOLLIN)

    def now(self) -> float:
        """The run's time, in seconds."""
        return time.monotonic() - self.origin

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Calls at a time, or as soon as possible after it; equal times keep their order."""
        self._number += 1
        heapq.heappush(self._times, (when, self._number, call))

    def watch(self, found: socket.socket, call: Callable[[], None]) -> None:
        """Calls when a socket has something to read."""
        self.on_readable(found.fileno(), call)

    def on_readable(self, number: int, call: Callable[[], None]) -> None:
        """Calls when a file descriptor has data to read or its other end is closed."""
        self._poll.register(number, select.EPOLLIN)
        self._ready[number] = call

    def stop(self) -> None:
        """Returns from `run` after this turn."""
        self._running = False

    def run(self) -> None:
        """Runs until `stop` is called."""
        while self._running:
            while self._times and self._times[0][0] <= self.now():
                heapq.heappop(self._times)[2]()
                if not self._running:
                    return
            if self._times and self._times[0][0] != self._armed:
                self._armed = self._times[0][0]
                system.set_timer(self._timer, self._armed + self.origin)
            try:
                ready = self._poll.poll()
            except InterruptedError:
                continue
            for number, _events in ready:
                if number == self._timer:
                    self._armed = None
                    with contextlib.suppress(BlockingIOError):
                        os.read(number, 8)
                    continue
                self._ready[number]()
