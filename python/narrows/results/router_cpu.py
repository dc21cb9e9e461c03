"""The simplest model of a router's processor: a cost for each operation on a packet.

A router receives a packet, lets the queue discipline decide, and sends or drops it. RED also
averages its queue and draws a random number for each arrival. The processor time is the number of
operations, from the queue and link samples of a run, times their costs.

The costs do not come from measurements of a router. They are of the order of a software router of
about 2005 that forwards 50,000 packets a second (20 us each). `scaled` gives others, and users of
the model show what depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from narrows.records.numbers import Floats, row_floats
from narrows.results.schema import DROPS, MARKS

if TYPE_CHECKING:
    from narrows.results.run import Run


@dataclass(frozen=True)
class Costs:
    """Processor time for each packet, in microseconds."""

    receive_us: float = 10.0
    """Taking a packet from the wire and looking up its route."""
    enqueue_us: float = 1.0
    """Putting it into the queue."""
    average_us: float = 1.0
    """Averaging the queue and drawing a number: RED, for every packet that arrives."""
    send_us: float = 9.0
    """Taking it from the queue and giving it to the card."""
    drop_us: float = 10.0
    """Dropping it: freeing its memory and counting it."""
    mark_us: float = 2.0
    """Setting CE and updating the header's checksum."""

    def scaled(self, **factors: float) -> Costs:
        """The costs with some of them multiplied by factors, by their names without the unit.

        Examples:
            >>> Costs().scaled(drop=10.0).drop_us
            100.0
        """
        changes = {f"{name}_us": getattr(self, f"{name}_us") * by for name, by in factors.items()}
        return replace(self, **changes)


COSTS = Costs()
"""The default costs."""


def router_cpu(
    run: Run, queue: str, returning: str, costs: Costs = COSTS, *, every_s: float = 1.0
) -> tuple[Floats, Floats]:
    """The processor's load at a router with one queue that can fill.

    Args:
        run: A run with samples of the queue and of the links.
        queue: The router's outgoing link whose queue is monitored, such as `ds1.forward`.
        returning: The link over which acknowledgements reach it, such as `ds1.backward`; they are
            received, put into a queue and sent, without drops.
        costs: The costs of the operations.
        every_s: Length of an interval.

    Returns:
        The intervals' ends in seconds, and the load in each in percent.

    Raises:
        ValueError: The queue or one of the links was not monitored.
    """
    samples = run.queues.filter(pl.col("link") == queue).sort("t_s")
    back = run.links.filter(pl.col("link") == returning).sort("t_s")
    if samples.is_empty() or back.is_empty():
        missing = queue if samples.is_empty() else returning
        raise ValueError(f"{missing} was not monitored")
    ends = np.arange(every_s, run.end_s + 1e-9, every_s)

    def counted(table: pl.DataFrame, *columns: str) -> Floats:
        """How much counters grew in each interval."""
        total = sum((row_floats(table, column) for column in columns), np.zeros(table.height))
        return np.diff(np.interp(ends, row_floats(table, "t_s"), total), prepend=0.0)

    arrived = counted(samples, "arrived_packets")
    dropped = counted(samples, *DROPS.values())
    marked = counted(samples, *MARKS.values())
    sent = counted(samples, "sent_packets")
    acknowledged = counted(back, "packets")
    averages = any(samples.get_column(f"average_{unit}").count() for unit in ("packets", "bytes"))
    spent_us = (
        costs.receive_us * (arrived + acknowledged)
        + costs.enqueue_us * (arrived - dropped + acknowledged)
        + (costs.average_us * arrived if averages else 0.0)
        + costs.send_us * (sent + acknowledged)
        + costs.drop_us * dropped
        + costs.mark_us * marked
    )
    return ends, 100.0 * spent_us * 1e-6 / every_s
