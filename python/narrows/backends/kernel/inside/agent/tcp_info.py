"""`TCP_INFO` of a socket (struct tcp_info, linux/tcp.h of Linux 6.1).

The structure only grows at its end, so fixed offsets hold from Linux 4.18 on.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

_ECN_NEGOTIATED = 8
_NO_RTT = 0xFFFFFFFF
_FIN_RECEIVED = (6, 8, 9, 11)
"""TIME_WAIT, CLOSE_WAIT, LAST_ACK and CLOSING (net/tcp_states.h)."""


def tcp_info(found: socket.socket) -> dict[str, Any]:
    """The facts about one end of a connection; empty if the socket no longer has any."""
    try:
        data = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return {}
    # Since Linux 4.10.
    times = struct.unpack_from("QQ", data, 168) if len(data) >= 184 else (None, None)
    data = data.ljust(256, b"\0")
    words = struct.unpack_from("24I", data, 8)
    least = struct.unpack_from("I", data, 148)[0]
    return {
        "fin_received": data[0] in _FIN_RECEIVED,
        "ecn": bool(data[5] & _ECN_NEGOTIATED),
        "options": data[5],
        "mss": words[2],
        "retransmitted": words[23],
        "srtt_ms": words[15] / 1e3,
        "cwnd": words[18],
        "bytes_acked": struct.unpack_from("Q", data, 120)[0],
        "bytes_received": struct.unpack_from("Q", data, 128)[0],
        "min_rtt_ms": None if least == _NO_RTT else least / 1e3,
        "segs_out": struct.unpack_from("I", data, 136)[0],
        "segs_in": struct.unpack_from("I", data, 140)[0],
        "bytes_sent": struct.unpack_from("Q", data, 200)[0],
        **dict(zip(("busy_us", "rwnd_limited_us"), times, strict=True)),
        "delivered_ce": struct.unpack_from("I", data, 196)[0],
        # Segments that had to wait for an earlier one; since Linux 5.4.
        "out_of_order": struct.unpack_from("I", data, 224)[0],
    }
