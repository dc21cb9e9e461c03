"""The names of Flent's series and of narrows' groups of traffic, which stand for each other.

TCP upload BE     up-be         Ping (ms) ICMP       icmp
TCP download::2   down-2        Ping (ms) UDP BK     udp-bk
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

TEST = "flent-"
"""The beginning of the names of scenarios that are Flent's tests."""
DELAY_S = 5.0
"""Flent's `DELAY`: its probes begin so many seconds before its load, and end as much after it."""

_TCP = re.compile(r"TCP (?P<direction>upload|download)(?:(?: |::)(?P<rest>[^:]+))?")
_PING = re.compile(r"Ping \(ms\) (?P<rest>.+)")
_SUMS = ("avg", "sum", "fairness")
_DIRECTIONS = {"upload": "up", "download": "down"}


class Series(NamedTuple):
    """What a series measures."""

    kind: Literal["upload", "download", "ping"]
    group: str


def series_of(name: str) -> Series | None:
    """What a series measures; None if it is computed from others, or is no TCP and no ping.

    Examples:
        >>> series_of("TCP upload BE"), series_of("TCP download::2")
        (Series(kind='upload', group='up-be'), Series(kind='download', group='down-2'))
        >>> series_of("Ping (ms) UDP BK"), series_of("TCP upload")
        (Series(kind='ping', group='udp-bk'), Series(kind='upload', group='up'))
        >>> series_of("TCP upload avg"), series_of("Ping (ms) avg"), series_of("TCP totals")
        (None, None, None)
    """
    if found := _TCP.fullmatch(name):
        rest = found["rest"] or ""
        if rest in _SUMS:
            return None
        upload = found["direction"] == "upload"
        direction: Literal["upload", "download"] = "upload" if upload else "download"
        return Series(direction, "-".join(filter(None, (_DIRECTIONS[direction], _slug(rest)))))
    if (found := _PING.fullmatch(name)) and found["rest"] not in _SUMS:
        return Series("ping", _slug(found["rest"]) or "ping")
    return None


def with_own_groups(series: Mapping[str, Series]) -> dict[str, Series]:
    """Series by name, each with a group of its own: names that differ may give the same group.

    Examples:
        >>> same = {name: Series("upload", "up-be") for name in ("TCP upload BE", "TCP upload be")}
        >>> [each.group for each in with_own_groups(same).values()]
        ['up-be', 'up-be_2']
    """
    found: dict[str, Series] = {}
    counts: Counter[str] = Counter()
    for name, each in series.items():
        counts[each.group] += 1
        count = counts[each.group]
        found[name] = each if count == 1 else each._replace(group=f"{each.group}_{count}")
    return found


def fit(name: str) -> str:
    """A test's name as part of the name of a scenario.

    Examples:
        >>> fit("rrul_be"), fit("../my test")
        ('rrul_be', 'my-test')
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:48]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48]


def tcp_series(group: str) -> str:
    """The series of a group of one of Flent's tests.

    >>> tcp_series("up-be2"), tcp_series("down-3"), tcp_series("up-cs5")
    ('TCP upload BE2', 'TCP download::3', 'TCP upload CS5')
    """
    direction, _, rest = group.partition("-")
    base = "TCP upload" if direction == "up" else "TCP download"
    if not rest:
        return base
    return f"{base}::{rest}" if rest.isdigit() else f"{base} {rest.upper()}"


def ping_series(group: str) -> str:
    """The series of a group of probes.

    >>> ping_series("icmp"), ping_series("udp-be1"), ping_series("near probes")
    ('Ping (ms) ICMP', 'Ping (ms) UDP BE1', 'Ping (ms) near probes')
    """
    words = group.split("-")
    known = group == "icmp" or words[0] == "udp"
    return f"Ping (ms) {' '.join(words).upper() if known else group}"
