"""Figures of results in a session: `run.plot()`, `sweep.plot()`, `comparison.plot()`.

Figures are the business of `narrows.report`, which reads results. All that is known of it here is
its name, as backends are known by theirs, so that whoever only reads tables loads no Matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["drawn"]

_HOME = "narrows.report.session"


def drawn(what: str, *given: Any, **named: Any) -> Any:
    """What the function of that name there gives."""
    return getattr(import_module(_HOME), what)(*given, **named)
