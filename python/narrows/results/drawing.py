"""Plots of results in a session: `run.plot()`, `sweep.plot()`, `comparison.plot()`.

`narrows.report` draws plots from results. This module knows only its name, so a program that only
reads tables does not load Matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = "narrows.report.session"


def drawn(what: str, *given: Any, **named: Any) -> Any:
    """Calls the function of that name in `narrows.report.session` and returns its result."""
    return getattr(import_module(_HOME), what)(*given, **named)
