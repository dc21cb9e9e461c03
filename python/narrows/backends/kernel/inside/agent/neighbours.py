"""Counts neighbour entries that fail because nobody answered the ARP requests.

The kernel has one counter for all namespaces (`res_failed` in /proc/net/stat/arp_cache), and only
the first namespace has the file (`neigh_table_init`, net/core/neighbour.c of Linux 6.1). So the
agent listens in each namespace for notifications about its entries (RTMGRP_NEIGH, rtnetlink(7)).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from . import system
from .loop import Loop
from .rtnetlink import Netlink

_RTMGRP_NEIGH = 4
_NUD_FAILED = 0x20


class Neighbours:
    """Listens for notifications in each namespace."""

    def __init__(self, namespaces: Iterable[str], loop: Loop) -> None:
        """Starts listening.

        Args:
            namespaces: Where to listen.
            loop: The loop of the process.
        """
        self.failed: dict[str, int] = {}
        """The number of failed entries, by namespace."""
        for name in namespaces:
            with system.inside(name):
                found = Netlink(_RTMGRP_NEIGH)
            found.socket.setblocking(False)
            loop.watch(found.socket, partial(self._hear, name, found))

    def _hear(self, namespace: str, found: Netlink) -> None:
        while True:
            try:
                news = list(found.news_of_neighbours())
            except OSError:
                # Nothing is left, or the socket ran out of room and lost some notifications.
                return
            count = sum(state == _NUD_FAILED for _, _, state in news)
            if count:
                self.failed[namespace] = self.failed.get(namespace, 0) + count
