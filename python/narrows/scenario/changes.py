"""Changes of links at set times."""

from __future__ import annotations

from typing import Literal

from narrows.scenario.base import Table
from narrows.scenario.quantities import LinkPattern, PositiveSpan, Rate, Span, refuse
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
    state: Literal["down", "up"] | None = None
    """`"down"`: from then on it sends nothing, until a change says `"up"`. The packet in
    transmission is lost; those in the queue and in the ring wait, as in a modem without a line. A
    Linux host whose device loses its carrier drops its queue instead."""

    @rule
    def _changes_something(self) -> Faults:
        if self.rate is None and self.delay is None and self.state is None:
            yield refuse("changes nothing", 'such as rate = "5 Mbit/s"')
