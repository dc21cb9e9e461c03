"""Counts neighbour entries that fail: nobody answered the requests of ARP.

The kernel's own counter (`res_failed` of /proc/net/stat/arp_cache) is one for all namespaces, and
only the first namespace has the file (`neigh_table_init`, net/core/neighbour.c of Linux 6.1). So
each namespace is asked for news of its entries instead (RTMGRP_NEIGH, rtnetlink(7)).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from . import system
from .loop import READ, Loop
from .rtnetlink import Netlink

__all__ = ["Neighbours"]

_RTMGRP_NEIGH = 4
_NUD_FAILED = 0x20


class Neighbours:
    """Listens for news in each namespace."""

    def __init__(self, namespaces: Iterable[str], loop: Loop) -> None:
        """Begins to.

        Args:
            namespaces: Which.
            loop: Of the process.
        """
        self.failed: dict[str, int] = {}
        """Entries that failed, by the namespace."""
        for name in namespaces:
            with system.inside(name):
                found = Netlink(_RTMGRP_NEIGH)
            found.socket.setblocking(False)
            loop.watch(found.socket, READ, partial(self._hear, name, found))

    def _hear(self, namespace: str, found: Netlink, _events: int) -> None:
        while True:
            try:
                news = list(found.news_of_neighbours())
            except OSError:
                # Nothing more, or more than there was room for: then some are not counted.
                return
            count = sum(state == _NUD_FAILED for _, _, state in news)
            if count:
                self.failed[namespace] = self.failed.get(namespace, 0) + count
