"""The published numbers: medians of the authors' data, and what others quote or measured."""

from __future__ import annotations

from dataclasses import dataclass

ARCHIVE = "median of ten runs in the authors' archive (Zenodo 1226887), as stratum-ns3 extracted it"
QUOTED = "the paper's plot, as stratum-ns3 quotes it"
STRATUM = "a number of stratum-ns3, not of the paper"

CLASSES = ("bk", "be", "cs5", "ef")
"""The four connections of each direction: CS1, CS0, CS5 and EF."""
PROBES = {
    "icmp": "ping",
    "udp-be": "datagrams with CS0",
    "udp-bk": "datagrams with CS1",
    "udp-ef": "datagrams with EF",
}


@dataclass(frozen=True)
class Rrul:
    """A row of the test rrul."""

    number: int
    queue: str
    up_mbits: int
    """The upload's rate; downloads have 10 Mbit/s."""
    classes: tuple[float, float, float, float]
    """Goodput of the uploads in Mbit/s, in the order of `CLASSES`."""
    up: float
    down: float | None
    """Goodput of all in Mbit/s."""
    probes: dict[tuple[str, int], float]
    """Round trips in ms, by probe and percentile."""

    @property
    def cell(self) -> str:
        """The name of its cell."""
        return f"rrul-{self.up_mbits}-{self.queue}"

    @property
    def title(self) -> str:
        """Its queue and its upload."""
        return f"{self.queue}, {self.up_mbits} Mbit/s up"


def _probes(icmp: tuple[float, float], **udp: tuple[float, float]) -> dict[tuple[str, int], float]:
    found = {("icmp", 50): icmp[0], ("icmp", 99): icmp[1]}
    for name, (median, most) in udp.items():
        found |= {(f"udp-{name}", 50): median, (f"udp-{name}", 99): most}
    return found


RRUL = (
    Rrul(
        1, "besteffort", 10, (2.320, 2.323, 2.328, 2.331), 9.299, None,
        _probes((51.71, 52.89), bk=(51.82, 52.55), ef=(51.80, 52.55)) | {("udp-be", 99): 52.56},
    ),
    Rrul(
        2, "diffserv3", 10, (0.612, 3.183, 3.152, 2.352), 9.305, None,
        _probes((52.60, 55.41), bk=(68.94, 81.19), ef=(55.00, 57.67)) | {("udp-be", 99): 54.61},
    ),
    Rrul(
        3, "diffserv4", 10, (0.674, 5.551, 1.524, 1.530), 9.275, None,
        _probes((52.30, 54.68), bk=(68.18, 79.82), ef=(54.62, 57.17)) | {("udp-be", 99): 54.00},
    ),
    Rrul(
        4, "fq-codel", 10, (2.316, 2.319, 2.322, 2.318), 9.277, None,
        _probes((51.37, 52.78), bk=(51.26, 52.82), ef=(51.28, 52.86)) | {("udp-be", 99): 52.77},
    ),
    Rrul(
        5, "besteffort", 1, (0.181, 0.173, 0.189, 0.189), 0.729, 9.494,
        _probes((58.15, 63.62), bk=(57.80, 62.10), ef=(57.76, 61.91)),
    ),
    Rrul(
        6, "diffserv3", 1, (0.041, 0.271, 0.271, 0.190), 0.742, 9.467,
        _probes((61.47, 84.66), bk=(236.5, 277.8), ef=(67.37, 88.76)),
    ),
    Rrul(
        7, "diffserv4", 1, (0.042, 0.508, 0.080, 0.080), 0.612, 9.393,
        _probes((61.22, 81.13), bk=(231.1, 277.5), ef=(72.89, 84.81)),
    ),
    Rrul(
        8, "fq-codel", 1, (0.192, 0.178, 0.196, 0.195), 0.743, 9.469,
        _probes((57.58, 71.56), ef=(60.93, 67.35)),
    ),
)  # fmt: skip

STREAM_TCP = {"besteffort": 9.486, "diffserv4": 8.188, "fq-codel": 9.637}
"""Goodput of 32 uploads beside a stream of 2 Mbit/s in Mbit/s, one run each."""

SHARES = {
    "flows": (100 / 6, 100 / 6, 100 / 6, 100 / 6, 100 / 6),
    "src": (12.5, 12.5, 12.5, 25.0, 25.0),
    "dst": (25.0, 25.0, 25 / 3, 25 / 3, 25.0),
    "triple": (150 / 11, 150 / 11, 150 / 11, 200 / 11, 300 / 11),
}
"""Figure 3's ideal: a connection's share in percent, from A to a, b and c (two), from B to c, d."""
CONNECTIONS = {"A-a": 1, "A-b": 1, "A-c": 2, "B-c": 1, "B-d": 1}
"""The connections of Figure 3 by pair of hosts."""

TIN_SHARES = {"CS1": 3.45, "CS0": 55.17, "AF41": 27.59, "EF": 13.79}
"""Figure 4: shares in percent of one greedy connection in each tin of diffserv4."""
