"""Queue disciplines at a link's head, with tc(8)'s names and defaults."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from narrows.scenario.queues.blue import Blue
from narrows.scenario.queues.classful import Band, Class, Classes, Match, Prio, nested
from narrows.scenario.queues.codel import Codel
from narrows.scenario.queues.drr import Drr, Qsdrr, Tdrr
from narrows.scenario.queues.fields import Packets
from narrows.scenario.queues.fifo import Bfifo, Pfifo
from narrows.scenario.queues.fq_codel import FqCodel
from narrows.scenario.queues.pie import Pie
from narrows.scenario.queues.red import Red
from narrows.scenario.queues.red_1993 import Adaptive, Red1993
from narrows.scenario.queues.sfq import Sfq

__all__ = [
    "Adaptive",
    "AnyQueue",
    "Band",
    "Bfifo",
    "Blue",
    "Class",
    "Classes",
    "Codel",
    "Drr",
    "FqCodel",
    "Match",
    "Packets",
    "Pfifo",
    "Pie",
    "Prio",
    "Qsdrr",
    "Queue",
    "Red",
    "Red1993",
    "Sfq",
    "Tdrr",
    "nested",
]

AnyQueue = (
    Pfifo
    | Bfifo
    | Red
    | Red1993
    | Codel
    | FqCodel
    | Pie
    | Blue
    | Drr
    | Tdrr
    | Qsdrr
    | Sfq
    | Prio
    | Classes
)

Queue = Annotated[AnyQueue, Field(discriminator="kind")]
"""Any queue discipline."""

# Queues may be inside others.
for _table in (Band, Class, Prio, Classes):
    _table.model_rebuild(force=True, _types_namespace={"Queue": Queue})
