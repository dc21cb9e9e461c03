"""Changes of links at set times."""

from __future__ import annotations

from typing import Literal

from narrows.scenario.base import Table
from narrows.scenario.links import Jitter, Loss
from narrows.scenario.quantities import LinkPattern, PositiveSpan, Rate, Span, refuse
from narrows.scenario.queues import Queue
from narrows.scenario.rules import Faults, rule


class Change(Table):
    """A change of a link during the run."""

    at: PositiveSpan
    """When it changes. Of two changes at the same time, the later one in the file counts."""
    link: LinkPattern
    """Which link: `NAME.forward` or `NAME.backward`; `NAME` means both, and `*` any part of a
    name."""
    rate: Rate | None = None
    """Its transmission rate from then on; a packet in transmission is still sent at the old one.
    Settings derived from the old rate, such as RED's `bandwidth`, stay."""
    delay: Span | None = None
    """Its propagation delay from then on. If it falls, packets may overtake others."""
    jitter: Jitter | None = None
    """Its delay variation from then on; a deviation of `"0 s"` ends it."""
    loss: Loss | None = None
    """Its losses on the wire from then on, as in `[[links]]`."""
    queue: Queue | None = None
    """Its queue discipline from then on. What waits is dropped, as with Linux's `tc qdisc replace`
    by another kind, and counts as dropped because the queue was full. Only a FIFO, CoDel or PIE
    that stays of its kind keeps its packets, as with `tc qdisc change`; if the new limit is lower,
    CoDel and PIE drop what is too much."""
    state: Literal["down", "up"] | None = None
    """`"down"`: from then on it sends nothing, until a change says `"up"`. The packet in
    transmission is lost; those in the queue and in the ring wait, as in a modem without a line. A
    Linux host whose device loses its carrier drops its queue instead."""

    @rule
    def _changes_something(self) -> Faults:
        keys = ("rate", "delay", "jitter", "loss", "queue", "state")
        if all(getattr(self, key) is None for key in keys):
            yield refuse("changes nothing", 'such as rate = "5 Mbit/s"')
