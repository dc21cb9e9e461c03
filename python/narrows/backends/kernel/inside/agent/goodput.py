"""A group's goodput over time: samples at a fixed rate, and one at the end.

If a sample is late because the machine stalled, it has the time at which it was really taken.
"""

from __future__ import annotations

from typing import Any

from .loop import Loop


class Goodput:
    """Counts what the receivers of a group read, and samples the counters."""

    def __init__(self, interval_s: float | None, loop: Loop) -> None:
        """Takes the first sample one interval after the run's start; with None, takes none."""
        self.bytes = [0, 0]
        """Bytes read: forward, and by connections in the other direction."""
        self._interval_s = interval_s
        self._loop = loop
        self._samples: list[tuple[float, int, int]] = []
        self._wait()

    def rows(self) -> dict[str, Any]:
        """The samples: times and counters. The one at the end is separate."""
        return {"samples": self._samples, "last": self._now()}

    def _wait(self) -> None:
        if self._interval_s is not None:
            self._loop.at((len(self._samples) + 1) * self._interval_s, self._sample)

    def _sample(self) -> None:
        self._samples.append(self._now())
        self._wait()

    def _now(self) -> tuple[float, int, int]:
        return (self._loop.now(), self.bytes[0], self.bytes[1])
