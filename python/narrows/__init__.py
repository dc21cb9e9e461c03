"""narrows: a bottleneck laboratory for DNS and short flows.

Examples:
    >>> from narrows import Scenario
    >>> scenario = Scenario.parse('''
    ... name = "one-link"
    ... duration = "10 s"
    ... [[links]]
    ... name = "wan"
    ... between = ["a", "b"]
    ... rate = "2 Mbit/s"
    ... ''')
    >>> scenario.duration
    '10 s'
    >>> scenario.duration.s
    10.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.backends import run
    from narrows.errors import NarrowsError, ScenarioError
    from narrows.results import Run, Sweep
    from narrows.scenario import Scenario
    from narrows.sweeps import SweepError, sweep

    __version__: str

__all__ = [
    "NarrowsError",
    "Run",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "SweepError",
    "__version__",
    "run",
    "sweep",
]

_HOMES = {
    "NarrowsError": ("narrows.errors", "NarrowsError"),
    "Run": ("narrows.results", "Run"),
    "Scenario": ("narrows.scenario", "Scenario"),
    "ScenarioError": ("narrows.errors", "ScenarioError"),
    "Sweep": ("narrows.results", "Sweep"),
    "SweepError": ("narrows.sweeps", "SweepError"),
    "__version__": ("narrows._core", "version"),
    "run": ("narrows.backends", "run"),
    "sweep": ("narrows.sweeps", "sweep"),
}


def __getattr__(name: str) -> Any:
    """Imports a name on first use, so that the command line starts and stops quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _HOMES[name]
    value = globals()[name] = getattr(import_module(module), there)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
