"""A TCP socket with the settings of a scenario."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

_TCP_CONGESTION = 13


def tcp_socket(told: Mapping[str, Any]) -> socket.socket:
    """A non-blocking TCP socket in the namespace of this thread.

    Args:
        told: `congestion`, `mss` and `nodelay`.

    Raises:
        OSError: The kernel refuses them.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, told["congestion"].encode() + b"\0")
    if told["mss"] is not None:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, told["mss"])
    if told["nodelay"]:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found
