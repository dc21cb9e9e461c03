"""The paper's four curves as cells, and the bench's other records."""

from __future__ import annotations

from narrows.reproduce.cells import Cell, Choice

TITLES = {
    "udp": "UDP",
    "tcp": "TCP of the kernel",
    "gateway": "stateless TCP",
    "gateway-axfr": "stateless TCP, transfers detected",
}
"""The paper's four curves: arms of the bench with BIND, by the arm's name."""

SPLIT = {
    "tcp-connect": "connections without a query",
    "tcp-kept": "queries on persistent connections",
    "tcp-fastopen": "the query in the SYN (Fast Open)",
}
"""Arms with BIND that break down the cost of the kernel's TCP."""

CHECKS4 = "checks-4"
CHECKS6 = "checks-6"

CELLS = [
    *(Cell(name, f"BIND, {title}", "") for name, title in {**TITLES, **SPLIT}.items()),
    Cell(CHECKS4, "what the gateway was seen to do, over IPv4", ""),
    Cell(CHECKS6, "what the gateway was seen to do, over IPv6", ""),
]

FIN = "FIN on the last segment, as in the paper"

CHOICES = [
    Choice(
        FIN,
        "the gateway keeps connections by default; the paper's closes them with the reply",
        {},
        cells=frozenset({"gateway"}),
        reads={f"{part}_500": f"{part}_500_fin" for part in ("kernel", "server", "total")},
    ),
]
