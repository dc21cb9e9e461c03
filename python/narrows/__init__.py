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
    10000000000000
"""

from __future__ import annotations

from narrows import _core
from narrows.backends import run
from narrows.errors import NarrowsError, ScenarioError
from narrows.results import Run
from narrows.scenario import Scenario

__version__ = _core.version

__all__ = ["NarrowsError", "Run", "Scenario", "ScenarioError", "__version__", "run"]
