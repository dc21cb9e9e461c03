"""The measurements that every RIPE Atlas probe runs, and how to download a day of them.

Each probe asks each root server every 30 minutes. The measurements have RIPE's numbers: a base for
the question and the transport, plus a number for the server. Wijnen 2012 used the SOA queries:
100xx over UDP and 101xx over TCP on IPv4, 110xx and 111xx on IPv6.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from narrows.errors import NarrowsError


@dataclass(frozen=True)
class RootServer:
    """A root server's built-in measurements.

    Examples:
        >>> ROOT_SERVERS["k"].measurement("tcp", 4)
        10101
    """

    letter: str
    number: int
    """The last two digits of its measurements' numbers."""

    def measurement(self, transport: str, family: int) -> int:
        """The number of the measurement that asks for the root's SOA over `udp` or `tcp`."""
        return _SOA[transport, family] + self.number

    def site_measurement(self, family: int) -> int:
        """The number of the measurement that asks which machine answers (hostname.bind, UDP)."""
        return _HOSTNAME[family] + self.number


_SOA = {("udp", 4): 10000, ("tcp", 4): 10100, ("udp", 6): 11000, ("tcp", 6): 11100}
_HOSTNAME = {4: 10300, 6: 11300}

_NUMBERS = {"k": 1, "f": 4, "i": 5, "m": 6, "l": 8, "a": 9, "b": 10} | {
    letter: 11 + index for index, letter in enumerate("cdeghj")
}

ROOT_SERVERS: Mapping[str, RootServer] = {
    letter: RootServer(letter, number) for letter, number in sorted(_NUMBERS.items())
}
"""Root servers by letter."""

_RESULTS = "https://atlas.ripe.net/api/v2/measurements/{}/results/?start={}&stop={}&format=txt"
_PROBES = "https://atlas.ripe.net/api/v2/probes/archive/?date={}"


def download_commands(
    servers: Sequence[str],
    day: dt.date,
    *,
    families: Sequence[int] = (4,),
    sites: bool = False,
) -> list[str]:
    """The curl commands that fetch a day of root servers' SOA results over UDP and TCP.

    Args:
        servers: Letters, such as `k`; `all` for every root server.
        day: The day, in UTC.
        families: 4, 6 or both.
        sites: Whether to fetch the measurements that show which machine answered as well.

    Examples:
        >>> commands = download_commands(["k"], dt.date(2012, 9, 20))
        >>> len(commands)
        3
        >>> commands[1].split(" -o ")[1].split()[0]
        'atlas-k-tcp4-2012-09-20.jsonl'

    Raises:
        NarrowsError: There is no root server of a letter.
    """
    wanted = sorted(ROOT_SERVERS) if "all" in servers else [name.lower() for name in servers]
    for name in wanted:
        if name not in ROOT_SERVERS:
            letters = ", ".join(ROOT_SERVERS)
            raise NarrowsError(f"{name}: is not a root server; hint: one of {letters}, or all")
    start = int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp())
    commands = []
    for name in wanted:
        server = ROOT_SERVERS[name]
        parts = [
            (f"{transport}{family}", server.measurement(transport, family))
            for family in families
            for transport in ("udp", "tcp")
        ]
        if sites:
            parts += [(f"site{family}", server.site_measurement(family)) for family in families]
        for part, number in parts:
            url = _RESULTS.format(number, start, start + 86_400 - 1)
            commands.append(_curl(url, f"atlas-{name}-{part}-{day}.jsonl"))
    commands.append(_curl(_PROBES.format(day), f"probes-{day}.json"))
    return commands


def _curl(url: str, file: str) -> str:
    return f"curl --fail --location --compressed -o {file} '{url}'"
