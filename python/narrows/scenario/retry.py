"""Retry schedules of stub resolvers: the timeouts of successive attempts, each with its source.

The schedules hold for one configured server; what a resolver does with several is not modelled.
"""

from __future__ import annotations

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


SCHEDULES: dict[str, Schedule] = {
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
    # A forwarder has no timer of its own. What follows the last attempt, such as Knot Resolver's
    # and systemd-resolved's change to TCP, is part of the profile of the same name.
    **{name: _measured(name) for name in dns_profiles.clients() if name != "dnsmasq"},
}
"""Schedules by the name that the key `retry` gives."""

if TYPE_CHECKING:
    ScheduleName = str
else:
    ScheduleName = Literal[tuple(SCHEDULES)]
