"""Figure 8's points (K7, K12) and the authors' open question (K9).

The fair-share window is a source's fair share of the bottleneck times the round-trip time, in
packets. The buffer is the bandwidth-delay product, which is the window times the number of sources.
"""

from __future__ import annotations

from dataclasses import dataclass

PACKET_BITS = 12_000.0

WINDOWS = (2, 10, 50, 100)
"""The fair-share windows, in packets."""


@dataclass(frozen=True)
class Point:
    """One point of Figure 8: the varied quantity, and the constant window."""

    panel: str
    """`rate`, `sources` or `rtt`: what the panel varies."""
    window: int
    sources: int
    rate_bps: float
    rtt_s: float
    wide: bool = False
    """Whether it is outside the figure's own range, but inside that of section V's start (K12)."""

    @property
    def product_packets(self) -> float:
        """The bandwidth-delay product, in packets."""
        return self.rate_bps * self.rtt_s / PACKET_BITS

    @property
    def at(self) -> float:
        """The panel's abscissa: Mbit/s, sources, or ms."""
        return {
            "rate": self.rate_bps / 1e6,
            "sources": float(self.sources),
            "rtt": self.rtt_s * 1e3,
        }[self.panel]

    @property
    def title(self) -> str:
        """What it is, in words."""
        return (
            f"{self.sources} sources, {self.rate_bps / 1e6:g} Mbit/s, {self.rtt_s * 1e3:g} ms, "
            f"window {self.window}"
        )

    def cell(self, queue: str) -> str:
        """Its cell's name."""
        return f"scale-{queue}-{self.panel}-w{self.window}-{self.at:g}"


FEWEST, MOST = 10, 1000
"""The numbers of sources in section V."""
SHORTEST_S, LONGEST_S = 0.0045, 1.5
"""Round trips: 6 ms to 1.5 s, and 500 Mbit/s at window 2, which asks for 4.8 ms."""
FASTEST_BPS = 3e9


def _points() -> list[Point]:
    points = []
    for window in WINDOWS:
        # 100 sources; the round trip follows from the rate.
        for rate, wide in (
            *((rate, False) for rate in (20e6, 50e6, 100e6, 200e6, 500e6)),
            *((rate, True) for rate in (1e9, 3e9)),
        ):
            rtt = 100 * window * PACKET_BITS / rate
            points.append(Point("rate", window, 100, rate, rtt, wide))
        # 100 ms; the rate follows from the number of sources.
        for sources, wide in (
            *((sources, False) for sources in (20, 50, 100, 200, 500)),
            *((sources, True) for sources in (10, 1000)),
        ):
            rate = sources * window * PACKET_BITS / 0.1
            points.append(Point("sources", window, sources, rate, 0.1, wide))
        # 500 Mbit/s; the number of sources follows from the round trip.
        for rtt, wide in (
            *((rtt, False) for rtt in (0.006, 0.012, 0.03, 0.06, 0.12)),
            *((rtt, True) for rtt in (0.3, 0.6, 1.5)),
        ):
            sources = round(500e6 * rtt / (window * PACKET_BITS))
            points.append(Point("rtt", window, max(1, sources), 500e6, rtt, wide))
    return [
        point
        for point in points
        if FEWEST <= point.sources <= MOST
        and SHORTEST_S <= point.rtt_s <= LONGEST_S
        and point.rate_bps <= FASTEST_BPS
    ]


POINTS = _points()

PANELS = {
    "rate": "bottleneck bandwidth, Mbit/s (100 sources)",
    "sources": "number of sources (100 ms)",
    "rtt": "round-trip time, ms (500 Mbit/s)",
}


@dataclass(frozen=True)
class Big:
    """A size of the single bottleneck at 0.5 Mbit/s for each source and 100 ms, up to K9's."""

    sources: int
    share: float
    """The buffer as a share of the bandwidth-delay product."""
    seeds: int

    @property
    def rate_bps(self) -> float:
        """The bottleneck's rate: 500 Mbit/s for 1000 sources, 10 Gbit/s for 20000."""
        return 0.5e6 * self.sources

    @property
    def buffer(self) -> int:
        """The buffer, in packets."""
        return max(2, round(self.share * self.rate_bps * 0.1 / PACKET_BITS))

    @property
    def title(self) -> str:
        """What it is, in words."""
        part = "the bandwidth-delay product" if self.share == 1.0 else "a tenth of it"
        return f"{self.sources} sources, {self.rate_bps / 1e6:g} Mbit/s, {part}"

    def cell(self, queue: str) -> str:
        """Its cell's name."""
        return f"big-{queue}-{self.sources}-{self.share:g}"


SHARES = (1.0, 0.1)
SMALL = 1000
"""The number of sources that the paper could simulate: "1000 sources and 500Mb/s"."""
LARGE = 20_000
BIG_SIZES = (10, 50, 200, SMALL, 5000, LARGE)

BIG = [
    Big(sources, share, 2 if sources == LARGE else 3 if sources > SMALL else 5)
    for share in SHARES
    for sources in BIG_SIZES
]
