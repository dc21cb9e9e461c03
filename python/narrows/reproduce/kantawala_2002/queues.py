"""The paper's six queues, with the chosen parameters of RED and Blue; README.md has the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from narrows.scenario.toml_text import inline

QUEUES = ("droptail", "red", "blue", "drr", "tdrr", "qsdrr")
"""The queues in the order of the paper's legends: first those for all flows, then per-flow ones."""

TITLES = {
    "droptail": "Tail Drop",
    "red": "RED",
    "blue": "Blue",
    "drr": "DRR",
    "tdrr": "TDRR",
    "qsdrr": "QSDRR",
}

SHARED = ("droptail", "red", "blue")
"""Queues that do not separate flows: the paper's non-DRR policies."""

FAMILY = ("drr", "tdrr", "qsdrr")
"""The DRR family."""

RED_MIN, RED_MAX = 0.25, 0.75
"""RED's thresholds as shares of the buffer."""
RED_WEIGHT = 2e-5
RED_MAX_P = 0.01

BLUE_INCREMENT, BLUE_DECREMENT = 0.0005, 0.00025
BLUE_FREEZE = "100 ms"

WEIGHT = 0.03125
"""TDRR's weight, as printed."""


def queue(name: str, limit: int, **settings: object) -> str:
    """A queue of the paper as a scenario's inline table.

    Args:
        name: One of `QUEUES`.
        limit: The buffer in packets.
        settings: Keys that differ from the choice for this queue.
    """
    kind, chosen = _CHOSEN[name](limit)
    return inline({"kind": kind, "limit": limit, **chosen, **settings})


def _red(limit: int) -> tuple[str, Mapping[str, object]]:
    return "red-1993", {
        "min": RED_MIN * limit,
        "max": RED_MAX * limit,
        "weight": RED_WEIGHT,
        "max_p": RED_MAX_P,
        "wait": True,
    }


def _blue(limit: int) -> tuple[str, Mapping[str, object]]:
    return "blue", {
        "increment": BLUE_INCREMENT,
        "decrement": BLUE_DECREMENT,
        "freeze": BLUE_FREEZE,
    }


def _plain(kind: str, **settings: object) -> _Choice:
    return lambda _: (kind, settings)


_Choice: TypeAlias = Callable[[int], tuple[str, Mapping[str, object]]]

_CHOSEN: Mapping[str, _Choice] = {
    "droptail": _plain("pfifo"),
    "red": _red,
    "blue": _blue,
    "drr": _plain("drr"),
    "tdrr": _plain("tdrr", weight=WEIGHT),
    "qsdrr": _plain("qsdrr"),
}
