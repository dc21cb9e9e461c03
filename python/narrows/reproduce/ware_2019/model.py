"""The model of Ware et al. 2019: what BBR gets of a link that it shares with loss-based TCP.

BBR's window of two bandwidth-delay products holds it back. The smallest round trip that it sees is
when it probes for it, and then the others' packets fill a part of the queue. So its idea of the
product, and with it its share, depends on the buffer alone.

The equations are in public code of Sarpkaya et al. 2025, and give the model's line in the plots of
the reproduction that the claims are read from.
"""

from __future__ import annotations

from narrows.reproduce.ware_2019.cells import PRODUCT

RTT_S = 0.04
RATE_PACKETS_S = PRODUCT / RTT_S


def share(buffer: float, connections: int, duration_s: float, *, probing: bool = True) -> float:
    """BBR's share of the link, 0 to 1.

    Args:
        buffer: The buffer in bandwidth-delay products.
        connections: BBR's connections.
        duration_s: How long they compete.
        probing: Whether to subtract the time that BBR spends in PROBE_RTT.
    """
    queue = buffer * PRODUCT
    others = max(0.0, 0.5 - 1.0 / (2.0 * buffer) - 4.0 * connections / queue)
    if not probing:
        return 1.0 - others
    probe_s = (queue / RATE_PACKETS_S + 0.2 + RTT_S) * duration_s / 10.0
    return max(0.0, (1.0 - others) * (duration_s - probe_s) / duration_s)
