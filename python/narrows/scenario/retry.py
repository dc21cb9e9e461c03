"""Retry schedules of stub resolvers: the timeouts of successive attempts, each with its source.

The schedules hold for one configured server; what a resolver does with several is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from narrows import dns_profiles


class Schedule(NamedTuple):
    """Timeouts of successive attempts, in seconds, and where they are written down."""

    timeouts_s: tuple[float, ...]
    source: str


def _measured(name: str) -> Schedule:
    client = dns_profiles.client(name)
    return Schedule(
        client.timeouts_s, f"{client.program}; version {client.version}: docs/dns-clients.md"
    )


_WRITTEN = {
    "windows": Schedule(
        (1, 2, 2, 4, 8),
        "Harhalakis et al. 2011, section V; Microsoft, Windows 2000 registry reference, "
        "DNSQueryTimeouts",
    ),
    "windows-7": Schedule(
        (1, 1, 2, 4, 4),
        "Microsoft TechNet, DNS Clients and Timeouts (part 2), 2011: Vista to Windows 7",
    ),
    "windows-10": Schedule(
        (1, 1, 2, 4, 2),
        "Microsoft, DNS client resolution timeouts (KB 2834226): queries at 0, 1, 2, 4 and 8 s, "
        "the end at 10 s",
    ),
}


class _Schedules(Mapping[str, Schedule]):
    """Schedules by name. A profile's is read when it is looked up."""

    def __init__(self) -> None:
        # A forwarder has no timer of its own. What follows the last attempt, such as Knot
        # Resolver's and systemd-resolved's change to TCP, is part of the profile of the same name.
        self._names = [*_WRITTEN, *(name for name in dns_profiles.clients() if name != "dnsmasq")]

    def __getitem__(self, name: str) -> Schedule:
        if name not in self._names:
            raise KeyError(name)
        return _WRITTEN.get(name) or _measured(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


SCHEDULES = _Schedules()
"""Schedules by the name that the key `retry` gives."""

if TYPE_CHECKING:
    ScheduleName = str
else:
    ScheduleName = Literal[tuple(SCHEDULES)]
