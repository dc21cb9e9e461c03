"""The counters of a host's TCP: /proc/net/netstat and /proc/net/snmp of its namespace."""

from __future__ import annotations

import os

from . import system


class Counters:
    """The counters of a namespace."""

    def __init__(self, namespace: str) -> None:
        with system.inside(namespace):
            # Files opened here still belong to the namespace later.
            self._files = [
                os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY)
                for name in ("netstat", "snmp")
            ]

    def changed(self) -> dict[str, int]:
        """All TCP counters that are not zero, by name."""
        # The files list these settings with the counters; -1 means no limit.
        settings = {"RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn"}
        return {
            name: count for name, count in self._all().items() if count and name not in settings
        }

    def _all(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for number in self._files:
            text = os.pread(number, 1 << 16, 0).decode("ascii", "replace")
            lines = [line.split() for line in text.splitlines()]
            for keys, values in zip(lines[::2], lines[1::2], strict=False):
                if keys[:1] in (["TcpExt:"], ["Tcp:"]):
                    found.update(zip(keys[1:], map(int, values[1:]), strict=False))
        return found
