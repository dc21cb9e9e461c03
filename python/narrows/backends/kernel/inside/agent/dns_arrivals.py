"""When DNS queries arrive on their own: evenly, or as a Poisson process.

Arrivals behave like the simulator's (crates/apps, dns/client/arrivals.rs). Times count from the
start, so a loop that is late for one arrival is not late for all that follow: it begins all queries
that are due at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .dns_rows import Told
from .loop import Loop


class Arrivals:
    """The arrivals of a group."""

    def __init__(
        self, job: Told, loop: Loop, numbers: random.Random, arrive: Callable[[int], None]
    ) -> None:
        """Starts nothing yet.

        Args:
            job: The group's job.
            loop: The loop of the process.
            numbers: Random numbers that only the arrivals use.
            arrive: Begins the query of this number, from 0.
        """
        self._loop = loop
        self._numbers = numbers
        self._arrive = arrive
        self._interval_s: float = job["arrivals"]["interval_s"]
        self._is_even = job["arrivals"]["spacing"] == "even"
        # With None, they go on until the run ends.
        self._total: int | None = job["queries"] and job["warm_up"] + job["queries"]
        self._next_s: float = job["start_s"] + numbers.random() * job["spread_s"]
        self._begun = 0

    @property
    def are_over(self) -> bool:
        """Whether no further query arrives."""
        return self._begun == self._total

    def start(self) -> None:
        """Waits for the first one."""
        if not self._is_even:
            self._next_s += self._gap()
        self._loop.at(self._next_s, self._handle)

    def _handle(self) -> None:
        index = self._begun
        self._begun += 1
        self._next_s += self._gap()
        if not self.are_over:
            self._loop.at(self._next_s, self._handle)
        self._arrive(index)

    def _gap(self) -> float:
        if self._is_even:
            return self._interval_s
        return self._numbers.expovariate(1.0 / self._interval_s)
