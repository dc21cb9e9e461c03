"""Fixed, listed or drawn amounts and times, as in the simulator (`draw.rs`)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any


class Draw:
    """The successive values of a draw in the plan."""

    def __init__(self, told: Mapping[str, Any], seed: str) -> None:
        """Reads the plan's form.

        Args:
            told: `constant`, `list`, `exponential` or `pareto`, in the required unit.
            seed: The seed for drawn values.
        """
        ((self._kind, self._told),) = told.items()
        self._random = random.Random(seed)

    def next(self, turn: int) -> float:
        """Amount number `turn`, from 0."""
        if self._kind == "constant":
            return float(self._told)
        if self._kind == "list":
            return float(self._told[turn % len(self._told)])
        mean: float = self._told["mean"]
        if self._kind == "exponential":
            return self._random.expovariate(1.0 / mean) if mean else 0.0
        shape: float = self._told["shape"]
        return mean * (shape - 1) / shape * self._random.paretovariate(shape)

    def whole(self, turn: int) -> int:
        """Amount number `turn` in whole bytes, at least one."""
        return max(1, round(self.next(turn)))
