"""RED's and FIFO's settings for a given maximum delay of a link, after Harhalakis et al.

Together, a full queue and a full ring of the network card delay a packet by the given time. RED's
thresholds and the FIFO's size are therefore reduced by the ring's bytes. RED's limit is not
(Harhalakis 2011, section IV: 300 ms at 10 Mbit/s give a limit of 375000 bytes and a FIFO of
262500).

Differences: the paper prints thresholds of 74874 and 262374 bytes, 126 less than its own rule
gives, and does not say why.
"""

from __future__ import annotations

from dataclasses import dataclass

from narrows import _core
from narrows.errors import NarrowsError, argument
from narrows.scenario.amounts import DataRate, DataSize, Duration
from narrows.scenario.quantities import MOST_BYTES, MOST_SPAN

AVERAGE_PACKET = 1400
"""Bytes of an average packet, the unit of RED's `burst` (the paper's assumption)."""

RING_PACKET = 1406.25
"""Bytes of a packet in the ring: in the paper, 80 packets take 90 ms at 10 Mbit/s."""

_PROBABILITY = 0.1
_MOST_APART = _core.red_most_apart(_PROBABILITY)
"""The most bytes between RED's thresholds; with more, tc(8) computes no probability per byte."""
_TC_RATES = (8, 8 * MOST_BYTES)
"""The least and largest RED bandwidth of tc(8) in bits per second: 1 byte/s to 32 bits of them."""


@dataclass(frozen=True)
class Sizes:
    """Settings of a queue before a link, in bytes; `burst` in packets."""

    rate: int
    """Bits per second."""
    max_delay: int
    """Picoseconds."""
    ring: int
    """Packets in the card's ring."""
    limit: int
    min: int
    max: int
    burst: int
    fifo: int

    def toml(self) -> str:
        """The link's keys in a scenario: rate, ring, and either queue, the FIFO as a comment."""
        ring = f"ring = {{ packets = {self.ring} }}\n" if self.ring else ""
        return (
            f'rate = "{DataRate(self.rate)}"\n{ring}'
            f'queue = {{ kind = "red", limit = "{DataSize(self.limit)}", '
            f'min = "{DataSize(self.min)}", max = "{DataSize(self.max)}", '
            f'burst = {self.burst}, avpkt = "{DataSize(AVERAGE_PACKET)}", '
            f"probability = {_PROBABILITY} }}\n"
            f'# queue = {{ kind = "bfifo", limit = "{DataSize(self.fifo)}" }}\n'
        )

    def tc(self, interface: str) -> tuple[str, str]:
        """The commands that put RED, or the FIFO, at an interface (tc-red(8), tc-bfifo(8)).

        RED's bandwidth only determines how fast its average falls while the queue is empty. tc
        accepts up to 34 Gbit/s; for a faster link, the command has that value.
        """
        # This is a plain number, because a quantity prints with a unit that tc does not know.
        bandwidth = int(min(max(self.rate, _TC_RATES[0]), _TC_RATES[1]))
        replace = f"tc qdisc replace dev {interface} root"
        return (
            f"{replace} red limit {self.limit} min {self.min} max {self.max} "
            f"avpkt {AVERAGE_PACKET} burst {self.burst} probability {_PROBABILITY} "
            f"bandwidth {bandwidth}bit",
            f"{replace} bfifo limit {self.fifo}",
        )


def size(rate: int, max_delay: int, ring: int = 0) -> Sizes:
    """Settings for a link of `rate` bits per second that may delay by `max_delay` picoseconds.

    `ring`: packets that the card's ring holds below the queue (`ethtool -g`, "TX").

    Examples:
        >>> sizes = size(10_000_000, 300 * 10**9, 80)
        >>> sizes.limit, sizes.min, sizes.max, sizes.burst, sizes.fifo
        (375000, 75000, 262500, 98, 262500)

    Raises:
        NarrowsError: The ring alone takes half of the delay or more, or leaves too little for a
            packet.
    """
    limit = rate * max_delay // (8 * 10**12)
    ring_bytes = round(ring * RING_PACKET)
    if limit > MOST_BYTES:
        raise NarrowsError(
            f"{argument('max_delay')} {Duration(max_delay)}: makes {limit} B at {DataRate(rate)}, "
            f"and Linux counts to {DataSize(MOST_BYTES)}; hint: a shorter delay"
        )
    low, high = limit // 2 - ring_bytes, limit - ring_bytes
    if low < AVERAGE_PACKET:
        least = 2 * (ring_bytes + AVERAGE_PACKET) * 8 * 10**12 // rate + 10**9
        remedies = ["a shorter ring"] if ring else []
        # A delay that no scenario accepts would not help.
        at_least = least // 10**9 * 10**9
        longer = f"at least {Duration(at_least)}" if at_least <= MOST_SPAN else "a higher rate"
        remedies.append(longer)
        raise NarrowsError(
            f"{argument('max_delay')} {Duration(max_delay)}: leaves RED no lower threshold at "
            f"{DataRate(rate)} with a ring of {ring} packets; "
            f"hint: {' or '.join(remedies)}"
        )
    if high - low > _MOST_APART:
        raise NarrowsError(
            f"{argument('max_delay')} {Duration(max_delay)}: puts RED's thresholds "
            f"{DataSize(high - low)} apart at {DataRate(rate)}, and tc takes "
            f"{DataSize(_MOST_APART)}; hint: a shorter delay"
        )
    # With thresholds of few packets, tc's own default may be less than tc accepts.
    burst = max(_core.red_bursts(low, high, AVERAGE_PACKET))
    return Sizes(rate, max_delay, ring, limit, low, high, burst, high)
