"""Queue disciplines at a link's head, with tc(8)'s names and defaults.

Each discipline declares its name and its keys once, in crates/qdisc. A new one needs a file there
and a line in the list of `disciplines.rs`. A line in kinds.py gives it a name in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.scenario.queues.base import Discipline as Discipline
from narrows.scenario.queues.base import Facts as Facts
from narrows.scenario.queues.base import Settings as Settings
from narrows.scenario.queues.declared import DISCIPLINES as DISCIPLINES
from narrows.scenario.queues.declared import TABLES as TABLES
from narrows.scenario.queues.declared import AnyDiscipline
from narrows.scenario.queues.kinds import *  # noqa: F403

if TYPE_CHECKING:
    Queue = Discipline
else:
    Queue = AnyDiscipline
    """Any queue discipline."""

# The classes say that they are in this module; copying and pickling look them up here.
globals().update(TABLES)
globals().update({made.__name__: made for made in DISCIPLINES.values()})
