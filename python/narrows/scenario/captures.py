"""Which packets a scenario keeps for capture files: `monitor.capture`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from narrows import _core
from narrows.scenario.checks import WAYS, directed_names, links_of, matches, patterns_are_few
from narrows.scenario.faults import nearest
from narrows.scenario.monitor import Capture
from narrows.scenario.quantities import refuse

if TYPE_CHECKING:
    from narrows.scenario.tables import Tables

__all__ = ["Chosen", "check", "select"]

MOST_CAPTURES = 100


class Chosen(NamedTuple):
    """A capture file, as the plan has it."""

    name: str
    link: int
    back: int | None
    snaplen: int | None


def select(scenario: Tables) -> list[Chosen]:
    """The capture files, in the order of the links.

    Raises pydantic's custom error for an entry that selects nothing, or the same as another.
    """
    entries = scenario.monitor.capture
    names = directed_names(scenario) if entries else {}
    patterns = [entry if isinstance(entry, str) else entry.link for entry in entries]
    patterns_are_few(patterns, len(names), "monitor.capture")
    found: dict[str, tuple[int, Chosen]] = {}
    for index, entry in enumerate(entries):
        key = f"monitor.capture[{index}]"
        for chosen in _chosen(scenario, entry, names, key):
            before, other = found.setdefault(chosen.name, (index, chosen))
            if other.snaplen != chosen.snaplen:
                raise refuse(
                    f"captures {chosen.name} with another snaplen than entry {before}",
                    "leave one of them out",
                    key,
                )
    return sorted((chosen for _, chosen in found.values()), key=lambda each: (each.link, each.name))


def _chosen(
    scenario: Tables, entry: str | Capture, names: dict[str, int], key: str
) -> Iterator[Chosen]:
    if isinstance(entry, str) or entry.at is None:
        pattern, key, snaplen = (
            (entry, key, None)
            if isinstance(entry, str)
            else (entry.link, f"{key}.link", entry.snaplen)
        )
        for number in links_of(pattern, names, key):
            link = scenario.links[number // 2]
            yield Chosen(f"{link.name}.{WAYS[number % 2]}", number, None, snaplen)
        return
    known = [link.name for link in scenario.links]
    selected = [
        (number, link)
        for number, link in enumerate(scenario.links)
        if matches(entry.link, link.name)
    ]
    if not selected:
        raise refuse(f'"{entry.link}" is no link', nearest(entry.link, known), f"{key}.link")
    ends = [(number, link) for number, link in selected if entry.at in link.between]
    if not ends:
        raise refuse(
            f'"{entry.at}" is no end of {entry.link}',
            f'such as "{selected[0][1].between[0]}"',
            f"{key}.at",
        )
    for number, link in ends:
        out = link.between.index(entry.at)
        there, back = 2 * number + out, 2 * number + 1 - out
        yield Chosen(f"{link.name}@{entry.at}", there, back, entry.snaplen)


def check(scenario: Tables) -> None:
    """Raises pydantic's custom error for what cannot be captured."""
    captured = len(select(scenario))
    if captured > MOST_CAPTURES:
        raise refuse(
            f"selects {captured} links; at most {MOST_CAPTURES} can be captured",
            "name fewer",
            "monitor.capture",
        )
    if not captured:
        return
    # The simulator counts bytes; a capture shows messages, whose names number all queries.
    queries = sum(dns.asked for dns in scenario.dns)
    for index, dns in enumerate(scenario.dns):
        if dns.transport != "udp":
            # A length that no message can have is written as a header and zeros.
            continue
        shortest = dns.shortest_packets()
        keys = ("query_size", "reply_size") if dns.messages is None else ("messages", "messages")
        for key, size, bound in zip(
            keys, shortest, _core.dns_sizes(queries, *shortest), strict=True
        ):
            if size < bound:
                said = (
                    f'"{int(size)} B"'
                    if dns.messages is None
                    else f'an IP packet of "{int(size)} B"'
                )
                raise refuse(
                    f"{said} holds no DNS message that a capture could show",
                    f'at least "{bound} B", or leave monitor.capture out',
                    f"dns[{index}].{key}",
                )
