"""Queue disciplines at a link's head, with tc(8)'s names and defaults.

Each discipline declares its name and its keys once, in crates/qdisc. A new one needs a file there
and a line in the list of `disciplines.rs`. A line in kinds.py gives it a name in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows.scenario.queues.base import Discipline as Discipline
from narrows.scenario.queues.base import Facts as Facts
from narrows.scenario.queues.base import Settings as Settings
from narrows.scenario.queues.declared import DISCIPLINES as DISCIPLINES
from narrows.scenario.queues.declared import TABLES as TABLES
from narrows.scenario.queues.declared import Queue as Queue

if TYPE_CHECKING:
    from narrows.scenario.queues.kinds import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Finds a class by its name, for those who import it, and for copying and pickling."""
    if name[0].isupper():
        for made in (*DISCIPLINES.values(), *TABLES.values()):
            if made.__name__ == name:
                return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
