"""Which packets a scenario keeps for capture files: `monitor.capture`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from narrows import _core
from narrows.scenario.checks import (
    DIRECTIONS,
    directed_names,
    links_of,
    matches,
    no_link,
    too_many,
)
from narrows.scenario.monitor import Capture
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Fault, Faults, until_unknown
from narrows.scenario.suggestions import suggestion

if TYPE_CHECKING:
    from narrows.scenario.dns import Dns
    from narrows.scenario.tables import Tables

MOST_CAPTURES = 100


class Chosen(NamedTuple):
    """A capture file in the form of the plan."""

    name: str
    link: int
    back: int | None
    snaplen: int | None


def select(scenario: Tables) -> list[Chosen]:
    """The capture files, in the order of the links."""
    names = directed_names(scenario) if scenario.monitor.capture else {}
    found: dict[str, Chosen] = {}
    for entry in scenario.monitor.capture:
        for chosen in _chosen(scenario, entry, names):
            found.setdefault(chosen.name, chosen)
    return sorted(found.values(), key=lambda each: (each.link, each.name))


def _chosen(scenario: Tables, entry: str | Capture, names: dict[str, int]) -> Iterator[Chosen]:
    if isinstance(entry, str) or entry.at is None:
        pattern, snaplen = (entry, None) if isinstance(entry, str) else (entry.link, entry.snaplen)
        for number in links_of(pattern, names):
            link = scenario.links[number // 2]
            yield Chosen(f"{link.name}.{DIRECTIONS[number % 2]}", number, None, snaplen)
        return
    for number, link in enumerate(scenario.links):
        if matches(entry.link, link.name) and entry.at in link.between:
            out = link.between.index(entry.at)
            there, back = 2 * number + out, 2 * number + 1 - out
            yield Chosen(f"{link.name}@{entry.at}", there, back, entry.snaplen)


def faults(scenario: Tables) -> Faults:
    """What is wrong with the captures, as far as the scenario's values are known."""
    entries = scenario.monitor.capture
    if not entries:
        return
    names = directed_names(scenario)
    patterns = [entry if isinstance(entry, str) else entry.link for entry in entries]
    too_long = list(too_many(patterns, len(names), "monitor.capture"))
    yield from too_long
    if too_long:
        return
    found: dict[str, tuple[int, Chosen]] = {}
    for index, entry in enumerate(entries):
        key = f"monitor.capture[{index}]"
        selected = list(_chosen(scenario, entry, names))
        if not selected:
            yield _nothing(scenario, entry, names, key)
        for chosen in selected:
            before, other = found.setdefault(chosen.name, (index, chosen))
            if other.snaplen != chosen.snaplen:
                yield refuse(
                    f"captures {chosen.name} with another snaplen than entry {before}",
                    "leave one of them out",
                    key,
                )
    if len(found) > MOST_CAPTURES:
        yield refuse(
            f"selects {len(found)} links; at most {MOST_CAPTURES} can be captured",
            "name fewer",
            "monitor.capture",
        )
    if found:
        yield from _messages_can_be_shown(scenario)


def _nothing(scenario: Tables, entry: str | Capture, names: dict[str, int], key: str) -> Fault:
    """The reason why an entry selects nothing."""
    if isinstance(entry, str):
        return no_link(entry, names, key)
    if entry.at is None:
        return no_link(entry.link, names, f"{key}.link")
    ends = [link.between for link in scenario.links if matches(entry.link, link.name)]
    if not ends:
        known = [link.name for link in scenario.links]
        return refuse(f'"{entry.link}" is not a link', suggestion(entry.link, known), f"{key}.link")
    said = f'"{entry.at}" is not an end of {entry.link}'
    return refuse(said, f'such as "{ends[0][0]}"', f"{key}.at")


def _messages_can_be_shown(scenario: Tables) -> Faults:
    """What is wrong with lengths of DNS messages.

    The simulator counts bytes; a capture shows messages, whose names number all queries.
    """
    queries = sum(dns.asked for dns in scenario.dns)
    for index, dns in enumerate(scenario.dns):
        yield from until_unknown(_can_be_shown(dns, queries, f"dns[{index}]"))


def _can_be_shown(dns: Dns, queries: int, key: str) -> Faults:
    if dns.transport.kind != "udp":
        # A length that no message can have is written as a header and zeros.
        return
    shortest = dns.shortest_packets()
    below = ("query_size", "reply_size") if dns.messages is None else ("messages", "messages")
    for name, size, bound in zip(below, shortest, _core.dns_sizes(queries, *shortest), strict=True):
        if size < bound:
            said = f'"{int(size)} B"'
            yield refuse(
                f"{said if dns.messages is None else f'an IP packet of {said}'} holds no DNS "
                "message that a capture could show",
                f'at least "{bound} B", or leave monitor.capture out',
                f"{key}.{name}",
            )
