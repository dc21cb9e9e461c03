"""What must hold between the tables of a scenario, and the bounds that keep a run finite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal

from narrows.scenario.faults import nearest
from narrows.scenario.quantities import refuse, span_text
from narrows.scenario.routing import MOST_HOPS, Network, PathError, RoutesError

if TYPE_CHECKING:
    from narrows.scenario.changes import Change
    from narrows.scenario.tables import Tables
    from narrows.scenario.traffic import Countable, Leg

__all__ = [
    "check",
    "directed_names",
    "links_of",
    "matches",
    "node_names",
    "patterns_are_few",
    "select_links",
]

MOST_NODES = 100_000
MOST_SAMPLES = 20_000_000
MOST_ROUTE_ENTRIES = 5_000_000
MOST_CHANGES = 100_000
# The most buckets of FQ-CoDel and SFQ, which make all of them at the start: half a gigabyte.
MOST_BUCKETS = 5_000_000

_PS = 10**12
WAYS: tuple[Literal["forward"], Literal["backward"]] = ("forward", "backward")


def check(scenario: Tables) -> None:
    """Raises pydantic's custom error for the first thing that is invalid."""
    _names_are_unique("links", ((f"links[{i}].name", x.name) for i, x in enumerate(scenario.links)))
    groups = ((f"{key}.name", group.name) for key, group in scenario.groups())
    _names_are_unique("traffic and DNS groups", groups)
    _nodes_are_known(scenario)
    _counts_are_bounded(scenario)
    _starts_are_in_time(scenario)
    _queues_are_bounded(scenario)
    _monitors_are_known(scenario)
    _changes_are_possible(scenario)
    _shared_servers_exist(scenario)
    _dns_servers_exist(scenario)
    _paths_exist(scenario)
    _neighbours_are_routers(scenario)
    _end_is_possible(scenario)


def _end_is_possible(scenario: Tables) -> None:
    if scenario.end != "dns":
        return
    if not scenario.dns:
        raise refuse("has no resolver workers to wait for", "add [[dns]] or leave end out", "end")
    for index, dns in enumerate(scenario.dns):
        if dns.queries is None:
            raise refuse(
                f'"dns" waits for {dns.name}, which asks until the run ends',
                f"give dns[{index}].queries, or leave end out",
                "end",
            )


def select_changes(scenario: Tables) -> list[tuple[Change, list[int]]]:
    """Each change, with the indices of the directed links that it selects in the plan's order.

    Raises pydantic's custom error for a change that selects no link, and if there are too many.
    """
    names = directed_names(scenario) if scenario.changes else {}
    wild = sum("*" in change.link for change in scenario.changes)
    if wild * len(names) > MOST_ROUTE_ENTRIES:
        raise refuse("has too many patterns for so many links", "name fewer", "changes")
    selected = []
    for index, change in enumerate(scenario.changes):
        found = _matching(change.link, names)
        if not found:
            hint = nearest(change.link, list(names))
            raise refuse(f'"{change.link}" is no link', hint, f"changes[{index}].link")
        selected.append((change, found))
    if sum(len(links) for _, links in selected) > MOST_CHANGES:
        raise refuse(f"makes more than {MOST_CHANGES} changes of a link", "name fewer", "changes")
    return selected


def select_links(scenario: Tables, patterns: Sequence[str], key: str) -> list[int]:
    """Indices of the directed links that a monitor's patterns select, in the plan's order.

    Raises pydantic's custom error for the pattern of `key` that selects none.
    """
    names = directed_names(scenario)
    patterns_are_few(patterns, len(names), key)
    chosen: set[int] = set()
    for index, pattern in enumerate(patterns):
        chosen.update(links_of(pattern, names, f"{key}[{index}]"))
    return sorted(chosen)


def patterns_are_few(patterns: Sequence[str], links: int, key: str) -> None:
    """Raises pydantic's custom error if matching the patterns would take too long."""
    wild = sum("*" in pattern for pattern in patterns)
    if wild * links > MOST_ROUTE_ENTRIES:
        raise refuse("has too many patterns for so many links", "name fewer", key)


def links_of(pattern: str, names: dict[str, int], key: str) -> list[int]:
    """Indices of those of the named directed links that a pattern selects.

    Raises pydantic's custom error if it selects none.
    """
    found = _matching(pattern, names)
    if not found:
        raise refuse(f'"{pattern}" is no link', nearest(pattern, list(names)), key)
    return found


def directed_names(scenario: Tables) -> dict[str, int]:
    """The names of the directed links, with their indices in the plan."""
    both = [f"{link.name}.{way}" for link in scenario.links for way in WAYS]
    return {name: index for index, name in enumerate(both)}


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern of links selects a directed link."""
    if "*" in pattern:
        return _fits(name, pattern.split("*"))
    return pattern in (name, name.rpartition(".")[0])


def _matching(pattern: str, names: dict[str, int]) -> list[int]:
    if "*" not in pattern:
        whole = [pattern, f"{pattern}.forward", f"{pattern}.backward"]
        return [names[name] for name in whole if name in names]
    pieces = pattern.split("*")
    return [index for name, index in names.items() if _fits(name, pieces)]


def _fits(name: str, pieces: list[str]) -> bool:
    """Whether a name is the pieces with anything between them; linear time, unlike a regex."""
    first, *middle, last = pieces
    if len(name) < len(first) + len(last) or not name.startswith(first):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return name.endswith(last)


def _names_are_unique(what: str, keyed: Iterable[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for key, name in keyed:
        if name in seen:
            raise refuse(
                f'"{name}" is taken by {seen[name].rpartition(".")[0]}',
                f"give {what} different names",
                key,
            )
        seen[name] = key


def _nodes_are_known(scenario: Tables) -> None:
    if scenario.nodes is not None:
        declared = [
            *((f"nodes.hosts[{i}]", name) for i, name in enumerate(scenario.nodes.hosts)),
            *((f"nodes.routers[{i}]", name) for i, name in enumerate(scenario.nodes.routers)),
        ]
        seen: set[str] = set()
        for key, name in declared:
            if name in seen:
                raise refuse(f'"{name}" is declared twice', "list each node once", key)
            seen.add(name)
        for index, link in enumerate(scenario.links):
            for end, name in enumerate(link.between):
                if name not in seen:
                    raise refuse(
                        f'"{name}" is not among nodes.hosts and nodes.routers',
                        nearest(name, sorted(seen)),
                        f"links[{index}].between[{end}]",
                    )
    known = node_names(scenario)
    if len(known) > MOST_NODES:
        raise refuse(f"name {len(known)} nodes; at most {MOST_NODES} can be held", "", "links")
    members = set(known)
    for key, group in scenario.groups():
        for below, name in group.keyed_nodes():
            if name not in members:
                raise refuse(f'"{name}" is no node', nearest(name, known), f"{key}.{below}")


def node_names(scenario: Tables) -> list[str]:
    """All nodes, in the order in which they are first declared or named."""
    names: dict[str, None] = {}
    if scenario.nodes is not None:
        names.update(dict.fromkeys([*scenario.nodes.hosts, *scenario.nodes.routers]))
    for link in scenario.links:
        names.update(dict.fromkeys(link.between))
    return list(names)


def _counts_are_bounded(scenario: Tables) -> None:
    totals: dict[Countable, int] = {}
    for key, group in scenario.groups():
        amounts = chain(group.amounts(), group.recorded(scenario.duration))
        for number, of, below, or_else in amounts:
            totals[of] = total = totals.get(of, 0) + number
            if total > of.most:
                raise refuse(
                    f"brings the {of.many} to {total}; at most {of.most} can be {of.can_be}",
                    f"lower it, {or_else}" if or_else else "lower it",
                    f"{key}.{below}",
                )


def _queues_are_bounded(scenario: Tables) -> None:
    total = 0
    known: dict[int, int] = {}
    for index, link in enumerate(scenario.links):
        for way in (link, link.forward, link.backward):
            if way is None or way.queue is None:
                continue
            if id(way.queue) not in known:
                known[id(way.queue)] = way.queue.facts.held
            # The link's own queue counts for both directions.
            total += known[id(way.queue)] * (2 if way is link else 1)
        if total > MOST_BUCKETS:
            raise refuse(
                f"brings the buckets of all queues to {total}; at most {MOST_BUCKETS} can be held",
                "use fewer links with such queues, or fewer buckets",
                f"links[{index}].queue",
            )


def _starts_are_in_time(scenario: Tables) -> None:
    for key, group in scenario.groups():
        if group.start >= scenario.duration:
            raise refuse(
                f'"{span_text(group.start)}" is not before the end of the run '
                f'("{span_text(scenario.duration)}")',
                "start earlier or raise duration",
                f"{key}.start",
            )


def _monitors_are_known(scenario: Tables) -> None:
    samples = 0.0
    for name in ("queues", "links"):
        sampler = getattr(scenario.monitor, name)
        if sampler is None:
            continue
        count = len(select_links(scenario, sampler.links, f"monitor.{name}.links"))
        samples += count * sampler.rate * scenario.duration / _PS
        if samples > MOST_SAMPLES:
            raise refuse(
                f"brings the samples to {samples:.0f}; at most {MOST_SAMPLES} can be recorded",
                "lower it, sample fewer links, or shorten the run",
                f"monitor.{name}.rate",
            )


def _changes_are_possible(scenario: Tables) -> None:
    for index, (change, links) in enumerate(select_changes(scenario)):
        key = f"changes[{index}]"
        if change.at >= scenario.duration:
            raise refuse(
                f'"{span_text(change.at)}" is not before the end of the run '
                f'("{span_text(scenario.duration)}")',
                "change earlier or raise duration",
                f"{key}.at",
            )
        for number in links:
            link, way = scenario.links[number // 2], WAYS[number % 2]
            if link.direction(way).opportunities is not None:
                raise refuse(
                    f"selects {link.name}.{way}, which follows rate_trace",
                    "name other links",
                    f"{key}.link",
                )
            if change.delay is None:
                continue
            jitter = link.direction(way).jitter
            if jitter is not None and jitter.deviation > change.delay:
                raise refuse(
                    f"is below the deviation of jitter of {link.name}.{way}, which would make "
                    "delays negative",
                    "raise it or lower jitter.deviation",
                    f"{key}.delay",
                )


def _shared_servers_exist(scenario: Tables) -> None:
    groups = {dns.name: (index, dns) for index, dns in enumerate(scenario.dns)}
    for index, dns in enumerate(scenario.dns):
        if dns.shares_server is None:
            continue
        key = f"dns[{index}].shares_server"
        at, other = groups.get(dns.shares_server, (index, None))
        if other is None or at >= index:
            raise refuse(
                f'"{dns.shares_server}" is no DNS group before this one', "name one of them", key
            )
        if other.shares_server is not None or other.server != dns.server:
            raise refuse(
                f'"{dns.shares_server}" has no server of its own at {dns.server}',
                "name a group that has",
                key,
            )
        over_tcp = dns.transport in ("tls", "https")
        if (dns.encrypts and not other.speaks_tls) or (
            over_tcp and other.answers.speaks_no_tls(over_tcp=True)
        ):
            raise refuse(
                f'"{dns.shares_server}" has no TLS',
                f"give {dns.shares_server} answers.tls",
                key,
            )
        if dns.transport == "https" and not other.speaks_https:
            raise refuse(
                f"how {other.answers.profile} speaks HTTPS is not known",
                "name a group with another server",
                key,
            )
        if dns.transport == "quic" and not other.speaks_quic:
            raise refuse(
                f"how {other.answers.profile} speaks QUIC is not known",
                "name a group with another server",
                key,
            )
        use = dns.connections.tls
        early = dns.encrypts and use is not None and use.early_data
        if early and not other.takes_early_data:
            raise refuse(
                "needs a server whose sessions allow it",
                f"set answers.tls.early_data of {dns.shares_server} to true, or leave it out",
                f"dns[{index}].connections.tls.early_data",
            )


def _dns_servers_exist(scenario: Tables) -> None:
    servers = {dns.server for dns in scenario.dns}
    for key, group in scenario.groups():
        for below, node in group.dns_servers():
            if node not in servers:
                raise refuse(
                    f'"{node}" has no DNS server', "add [[dns]] with this server", f"{key}.{below}"
                )


def _neighbours_are_routers(scenario: Tables) -> None:
    ends = {
        end: key
        for key, group in scenario.groups()
        for leg in group.legs()
        for end in (leg.source, leg.target)
    }
    for index, link in enumerate(scenario.links):
        for end in link.between if link.neighbours == "arp" else ():
            if end in ends:
                raise refuse(
                    f"is for two routers, and {end} is an end of {ends[end]}",
                    "set it on a link between routers",
                    f"links[{index}].neighbours",
                )


def _paths_exist(scenario: Tables) -> None:
    network = scenario.network()
    entries = 0
    try:
        for key, group in scenario.groups():
            for leg in group.legs():
                entries += len(_path(network, leg, key))
                if entries > MOST_ROUTE_ENTRIES:
                    raise refuse(
                        f"needs more than {MOST_ROUTE_ENTRIES} hops for all its ways",
                        "name fewer nodes",
                        f"{key}.{leg.key}",
                    )
    except RoutesError:
        raise refuse(
            "make more routes than can be computed", "use fewer routers or end points", "links"
        ) from None


def _path(network: Network, leg: Leg, group: str) -> tuple[int, ...]:
    if leg.given is not None:
        try:
            return network.along(leg.source, leg.given, leg.target)
        except PathError as error:
            at = "" if error.position is None else f"[{error.position}]"
            hint = 'list neighbours in order, such as ["r1", "r3", "r2"]'
            raise refuse(error.message, hint, f"{group}.{leg.given_key}{at}") from None
    path = network.route(leg.source, leg.target)
    if path is None:
        raise refuse(
            f'there is no path from "{leg.source}" to "{leg.target}" of at most {MOST_HOPS} hops',
            "join them by [[links]]; nodes listed in nodes.hosts forward nothing",
            f"{group}.{leg.key}",
        )
    return path
