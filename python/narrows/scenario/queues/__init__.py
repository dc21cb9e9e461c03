"""Queue disciplines at a link's head, with tc(8)'s names and defaults."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from narrows.scenario.queues.blue import Blue
from narrows.scenario.queues.codel import Codel
from narrows.scenario.queues.drr import Drr, Qsdrr, Tdrr
from narrows.scenario.queues.fields import Packets
from narrows.scenario.queues.fifo import Bfifo, Pfifo
from narrows.scenario.queues.red import Red
from narrows.scenario.queues.red_1993 import Red1993
from narrows.scenario.queues.sfq import Sfq

__all__ = [
    "AnyQueue",
    "Bfifo",
    "Blue",
    "Codel",
    "Drr",
    "Packets",
    "Pfifo",
    "Qsdrr",
    "Queue",
    "Red",
    "Red1993",
    "Sfq",
    "Tdrr",
]

AnyQueue = Pfifo | Bfifo | Red | Red1993 | Codel | Blue | Drr | Tdrr | Qsdrr | Sfq

Queue = Annotated[AnyQueue, Field(discriminator="kind")]
"""Any queue discipline."""
