"""What must hold between the tables of a scenario, and the bounds that keep a run finite."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import PydanticCustomError

from narrows.scenario.amounts import SECOND
from narrows.scenario.declared import find
from narrows.scenario.quantities import refuse
from narrows.scenario.queues.filters import ENDS, filters
from narrows.scenario.routing import MOST_HOPS, Network, PathError, RoutesError
from narrows.scenario.rules import Fault, Faults, Unknown, Unreadable, known, until_unknown
from narrows.scenario.suggestions import suggestion

if TYPE_CHECKING:
    from narrows.scenario.changes import Change
    from narrows.scenario.dns import Dns
    from narrows.scenario.links import Direction, Link
    from narrows.scenario.monitor import Sampler
    from narrows.scenario.queues import Discipline
    from narrows.scenario.tables import Tables
    from narrows.scenario.traffic import Amount, Countable, Group, Leg
    from narrows.scenario.traffic.base import Names

MOST_NODES = 100_000
MOST_SAMPLES = 20_000_000
MOST_ROUTE_ENTRIES = 5_000_000
MOST_CHANGES = 100_000
# The most buckets of FQ-CoDel and SFQ, which make all of them at the start: half a gigabyte.
MOST_BUCKETS = 5_000_000

DIRECTIONS: tuple[Literal["forward"], Literal["backward"]] = ("forward", "backward")


def faults(scenario: Tables) -> Faults:
    """What is wrong between its tables, as far as their values are known."""
    for check in (
        _names_are_unique,
        _nodes_are_declared,
        _nodes_are_known,
        _counts_are_bounded,
        _starts_are_in_time,
        _queues_are_bounded,
        _filters_name_nodes,
        _monitors_are_known,
        _window_is_possible,
        _changes_are_possible,
        _shared_servers_exist,
        _dns_servers_exist,
        _resolvers_exist,
        _paths_exist,
        _neighbours_are_routers,
        _end_is_possible,
    ):
        yield from until_unknown(check(scenario))


def _end_is_possible(scenario: Tables) -> Faults:
    if scenario.end != "dns":
        return
    if not scenario.dns:
        yield refuse("has no resolver workers to wait for", "add [[dns]] or leave end out", "end")
    for index, dns in enumerate(scenario.dns):
        yield from until_unknown(_ends(dns, index))


def _ends(dns: Dns, index: int) -> Faults:
    if not dns.queries:
        yield refuse(
            f'"dns" waits for {dns.name}, which asks until the run ends',
            f"give dns[{index}].queries, or leave end out",
            "end",
        )


def select_changes(scenario: Tables) -> list[tuple[Change, list[int]]]:
    """Each change, with the indices of the directed links that it selects in the plan's order."""
    names = directed_names(scenario) if scenario.changes else {}
    return [(change, links_of(change.link, names)) for change in scenario.changes]


def select_links(scenario: Tables, patterns: Sequence[str]) -> list[int]:
    """Indices of the directed links that a monitor's patterns select, in the plan's order."""
    names = directed_names(scenario)
    return sorted({link for pattern in patterns for link in links_of(pattern, names)})


def too_many(patterns: Sequence[str], number: int, key: str, what: str = "links") -> Faults:
    """What is wrong if matching the patterns would take too long."""
    wild = sum("*" in pattern for pattern in patterns)
    if wild * number > MOST_ROUTE_ENTRIES:
        yield refuse(f"has too many patterns for so many {what}", "name fewer", key)


def no_link(pattern: str, names: dict[str, int], key: str) -> Fault:
    """Says that a pattern selects no link."""
    return refuse(f'"{pattern}" is not a link', suggestion(pattern, list(names)), key)


def directed_names(scenario: Tables) -> dict[str, int]:
    """The names of the directed links, with their indices in the plan."""
    both = [f"{link.name}.{direction}" for link in scenario.links for direction in DIRECTIONS]
    return {name: index for index, name in enumerate(both)}


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern of links selects a directed link."""
    if "*" in pattern:
        return _fits(name, pattern.split("*"))
    return pattern in (name, name.rpartition(".")[0])


def links_of(pattern: str, names: dict[str, int]) -> list[int]:
    """Indices of the named directed links that a pattern selects."""
    if "*" not in pattern:
        whole = [pattern, f"{pattern}.forward", f"{pattern}.backward"]
        return [names[name] for name in whole if name in names]
    pieces = pattern.split("*")
    return [index for name, index in names.items() if _fits(name, pieces)]


def _fits(name: str, pieces: list[str]) -> bool:
    """Whether a name has the pieces in order; unlike a regex, it takes linear time."""
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


def _names_are_unique(scenario: Tables) -> Faults:
    links = ((f"links[{index}]", link) for index, link in enumerate(scenario.links))
    yield from until_unknown(_unique("links", links))
    yield from until_unknown(_unique("traffic and DNS groups", _groups(scenario)))


def _unique(what: str, keyed: Iterable[tuple[str, Link | Group]]) -> Faults:
    seen: dict[str, str] = {}
    for key, table in keyed:
        name = known(table, "name")
        if name in seen:
            yield refuse(
                f'"{name}" is taken by {seen[name]}', f"give {what} different names", f"{key}.name"
            )
        elif name is not None:
            seen[name] = key


def _nodes_are_declared(scenario: Tables) -> Faults:
    if scenario.nodes is None:
        return
    declared = [
        *((f"nodes.hosts[{i}]", name) for i, name in enumerate(scenario.nodes.hosts)),
        *((f"nodes.routers[{i}]", name) for i, name in enumerate(scenario.nodes.routers)),
    ]
    seen: set[str] = set()
    for key, name in declared:
        if name in seen:
            yield refuse(f'"{name}" is declared twice', "list each node once", key)
        seen.add(name)
    declared_names = sorted(seen)
    for index, link in enumerate(scenario.links):
        for end, name in enumerate(known(link, "between") or ()):
            if name not in seen:
                yield refuse(
                    f'"{name}" is not among nodes.hosts and nodes.routers',
                    suggestion(name, declared_names),
                    f"links[{index}].between[{end}]",
                )
            # A node that several links name gets one line.
            seen.add(name)


def _nodes_are_known(scenario: Tables) -> Faults:
    names = node_names(scenario)
    if len(names) > MOST_NODES:
        yield refuse(f"name {len(names)} nodes; at most {MOST_NODES} can be held", "", "links")
    members = set(names)
    for key, group in _groups(scenario):
        for below, name in until_unknown(group.keyed_nodes()):
            if name not in members:
                yield refuse(f'"{name}" is not a node', suggestion(name, names), f"{key}.{below}")


def node_names(scenario: Tables) -> list[str]:
    """All nodes, in the order in which they are first declared or named."""
    names: dict[str, None] = {}
    if scenario.nodes is not None:
        names.update(dict.fromkeys([*scenario.nodes.hosts, *scenario.nodes.routers]))
    for link in scenario.links:
        names.update(dict.fromkeys(link.between))
    return list(names)


def _groups(scenario: Tables) -> Iterator[tuple[str, Group]]:
    """The groups whose tables can be read, each after its key."""
    return (keyed for keyed in scenario.groups() if not isinstance(keyed[1], Unreadable))


def _counts_are_bounded(scenario: Tables) -> Faults:
    totals: dict[Countable, int] = {}
    for key, group in _groups(scenario):
        for number, of, below, or_else in until_unknown(_amounts(group, scenario)):
            before = totals.get(of, 0)
            totals[of] = total = before + number
            # Every later group raises it further.
            if before <= of.most < total:
                yield refuse(
                    f"brings the {of.many} to {total}; at most {of.most} can be {of.can_be}",
                    f"lower it, {or_else}" if or_else else "lower it",
                    f"{key}.{below}",
                )


def _amounts(group: Group, scenario: Tables) -> Iterator[Amount]:
    yield from group.amounts()
    yield from group.recorded(scenario.duration)


def _queues_are_bounded(scenario: Tables) -> Faults:
    total = 0
    held: dict[int, int] = {}
    for index, link in enumerate(scenario.links):
        total += sum(until_unknown(_buckets(link, held)))
        if total > MOST_BUCKETS:
            yield refuse(
                f"brings the buckets of all queues to {total}; at most {MOST_BUCKETS} can be held",
                "use fewer links with such queues, or fewer buckets",
                f"links[{index}].queue",
            )
            return


def _filters_name_nodes(scenario: Tables) -> Faults:
    names = node_names(scenario)
    members = set(names)
    # The copies of a link share their queue.
    queues: dict[int, tuple[str, Discipline]] = {}
    for key, queue in _queues(scenario):
        queues.setdefault(id(queue), (key, queue))
    for key, queue in queues.values():
        for below, match in filters(queue.plain()):
            for end in ENDS:
                if (name := match[end]) is not None and name not in members:
                    what = f'"{name}" is not a node'
                    yield refuse(what, suggestion(name, names), f"{key}.{below}.{end}")


def _queues(scenario: Tables) -> Iterator[tuple[str, Discipline]]:
    """The queues of links and of their changes, each after the key of its table."""
    for index, link in enumerate(scenario.links):
        for name, part in (("", link), (".forward", link.forward), (".backward", link.backward)):
            queue = None if part is None else known(part, "queue")
            if queue is not None:
                yield f"links[{index}]{name}", queue
    for index, change in enumerate(scenario.changes):
        queue = known(change, "queue")
        if queue is not None:
            yield f"changes[{index}]", queue


def _buckets(link: Link, held: dict[int, int]) -> Iterator[int]:
    """The buckets of a link's queues; `held` keeps those of queues that were looked at before."""
    for part in (link, link.forward, link.backward):
        if part is None or part.queue is None:
            continue
        if id(part.queue) not in held:
            held[id(part.queue)] = part.queue.facts.held
        # The link's own queue counts for both directions.
        yield held[id(part.queue)] * (2 if part is link else 1)


def _starts_are_in_time(scenario: Tables) -> Faults:
    for key, group in _groups(scenario):
        start = known(group, "start")
        if start is not None and start >= scenario.duration:
            yield refuse(
                f'"{start}" is not before the end of the run ("{scenario.duration}")',
                "start earlier or raise duration",
                f"{key}.start",
            )


def _window_is_possible(scenario: Tables) -> Faults:
    measure = known(scenario, "measure")
    if measure is None:
        return
    start, end = (known(measure, key) for key in ("from", "to"))
    if start is not None and end is not None and start >= end:
        yield refuse(f'"{start}" is not before `to` ("{end}")', "begin earlier", "measure.from")
    for key, at, late in (("from", start, scenario.duration), ("to", end, scenario.duration + 1)):
        if at is not None and at >= late:
            yield refuse(
                f'"{at}" is {"not before" if key == "from" else "after"} the end of the run '
                f'("{scenario.duration}")',
                "name an earlier time, or raise duration",
                f"measure.{key}",
            )


def _monitors_are_known(scenario: Tables) -> Faults:
    names = directed_names(scenario)
    selected: list[tuple[str, Sampler, int]] = []
    for name in ("queues", "links", "queue_delays"):
        sampler = None if name == "queue_delays" else known(scenario.monitor, name)
        patterns = () if sampler is None else known(sampler, "links") or ()
        key = f"monitor.{name}.links"
        if name == "queue_delays":
            patterns, key = known(scenario.monitor, name) or (), f"monitor.{name}"
        too_long = list(too_many(patterns, len(names), key))
        yield from too_long
        if too_long:
            continue
        found: set[int] = set()
        for index, pattern in enumerate(patterns):
            links = links_of(pattern, names)
            found.update(links)
            if not links:
                yield no_link(pattern, names, f"{key}[{index}]")
        if sampler is not None:
            selected.append((name, sampler, len(found)))
    samples = 0.0
    for name, sampler, count in selected:
        samples += count * sampler.rate * scenario.duration / SECOND
        if samples > MOST_SAMPLES:
            yield refuse(
                f"brings the samples to {samples:.0f}; at most {MOST_SAMPLES} can be recorded",
                "lower it, sample fewer links, or shorten the run",
                f"monitor.{name}.rate",
            )
            return


def _changes_are_possible(scenario: Tables) -> Faults:
    yield from until_unknown(_changes_are_in_time(scenario))
    names = directed_names(scenario) if scenario.changes else {}
    patterns = [known(change, "link") or "" for change in scenario.changes]
    too_long = list(too_many(patterns, len(names), "changes"))
    yield from too_long
    if too_long:
        return

    # Many changes may select the same links.
    @functools.cache
    def direction(number: int) -> Direction:
        return scenario.links[number // 2].direction(DIRECTIONS[number % 2])

    tables = (each for link in scenario.links for each in link.tables_of_rates())
    number = sum(len(rates) for _, rates in until_unknown(tables))
    if number > MOST_CHANGES:
        yield refuse(
            f"has tables of rates with more than {MOST_CHANGES} rates together",
            "thin them",
            "links",
        )
        return
    now: dict[int, dict[str, Any]] = {}
    in_time = sorted(enumerate(scenario.changes), key=lambda each: known(each[1], "at") or 0)
    for index, change in in_time:
        pattern = patterns[index]
        links = links_of(pattern, names)
        number += len(links)
        if number > MOST_CHANGES:
            said = f"make more than {MOST_CHANGES} changes to links"
            yield refuse(said, "name fewer", "changes")
            return
        if pattern and not links:
            yield no_link(pattern, names, f"changes[{index}].link")
        for link in links:
            key = f"changes[{index}]"
            held = now.setdefault(link, {})
            fits = list(until_unknown(_fits_link(change, direction(link), held, key)))
            yield from fits
            if fits:
                break


def _changes_are_in_time(scenario: Tables) -> Faults:
    for index, change in enumerate(scenario.changes):
        at = known(change, "at")
        if at is not None and at >= scenario.duration:
            yield refuse(
                f'"{at}" is not before the end of the run ("{scenario.duration}")',
                "change earlier or raise duration",
                f"changes[{index}].at",
            )


def _fits_link(change: Change, direction: Direction, held: dict[str, Any], key: str) -> Faults:
    """What is wrong between a change and a directed link; `held` are its keys that changed."""
    if direction.trace is not None:
        yield refuse(
            f"selects {direction.name}, which follows rate_trace", "name other links", f"{key}.link"
        )
        return
    for name in ("rate", "delay", "jitter"):
        value = getattr(change, name)
        if value is not None:
            held[name] = value
    delay, jitter, rate = (held.get(k, direction.keys[k]) for k in ("delay", "jitter", "rate"))
    if jitter is not None and jitter.deviation > delay:
        yield (
            refuse(
                f"is below the deviation of jitter of {direction.name}, which would make "
                "delays negative",
                "raise it or lower jitter.deviation",
                f"{key}.delay",
            )
            if change.delay is not None
            else refuse(
                f"is above the delay of {direction.name}, which cannot become negative",
                "lower the deviation or raise delay",
                f"{key}.jitter.deviation",
            )
        )
    wrong = None if change.queue is None else change.queue.wrong_at(rate)
    if wrong is not None:
        below, what, hint = wrong
        yield refuse(what, hint, f"{key}.queue.{below}")


def _shared_servers_exist(scenario: Tables) -> Faults:
    groups = {dns.name: (index, dns) for index, dns in enumerate(scenario.dns)}
    for index, dns in enumerate(scenario.dns):
        name = known(dns, "shares_server")
        if name is not None:
            yield from until_unknown(_shares(dns, index, *groups.get(name, (index, dns))))


def _shares(dns: Dns, index: int, at: int, other: Dns) -> Faults:
    """What is wrong between a group and the one whose server it shares."""
    key, name = f"dns[{index}].shares_server", dns.shares_server
    over_tcp = dns.transport.kind in ("tls", "https")
    if at >= index:
        yield refuse(f'"{name}" is not a DNS group before this one', "name one of them", key)
        return
    if other.shares_server is not None or other.server != dns.server:
        yield refuse(
            f'"{name}" has no server of its own at {dns.server}', "name a group that has", key
        )
        return
    if (dns.encrypts and not other.speaks_tls) or (
        over_tcp and other.answers.speaks_no_tls(over_tcp=True)
    ):
        yield refuse(f'"{name}" has no TLS', f"give {name} answers.tls", key)
        return
    for transport, called, speaks in (
        ("https", "HTTPS", other.speaks_https),
        ("quic", "QUIC", other.speaks_quic),
        ("http3", "HTTP/3", other.speaks_http3),
    ):
        if dns.transport.kind == transport and not speaks:
            yield refuse(
                f"{other.answers.profile} was not captured over {called}",
                "name a group with another server",
                key,
            )
            return
    if dns.asks_early and not other.takes_early_data:
        yield refuse(
            "needs a server whose sessions allow it",
            f"set answers.tls.early_data of {name} to true, or leave it out",
            f"dns[{index}].transport.tls.early_data",
        )


def _dns_servers_exist(scenario: Tables) -> Faults:
    servers = {dns.server for dns in scenario.dns}
    for key, group in _groups(scenario):
        for below, node in until_unknown(group.dns_servers()):
            if node not in servers:
                yield refuse(
                    f'"{node}" has no DNS server', "add [[dns]] with this server", f"{key}.{below}"
                )


def _resolvers_exist(scenario: Tables) -> Faults:
    """What is wrong between groups that need names and the DNS groups that they ask."""
    groups = {dns.name: dns for dns in scenario.dns}
    most = int(find("DnsClient", "workers")["most"])
    asked: dict[str, int] = {}
    for place, group in _groups(scenario):
        for names in until_unknown(group.asks_for_names()):
            asked[names.group] = asked.get(names.group, 0) + names.most
            for why, fix in _cannot_resolve(names, groups.get(names.group)):
                yield refuse(why, fix, f"{place}.{names.key}")
            if asked[names.group] > most:
                said = f"{names.group} would be asked for {asked[names.group]} names at once"
                fix = "lower hosts or browsers"
                yield refuse(f"{said}; at most {most} can be held", fix, f"{place}.{names.key}")
    for index, dns in enumerate(scenario.dns):
        if known(dns, "queries") == 0 and dns.name not in asked:
            yield refuse(
                "is 0, but no page asks this group",
                f'give a number, or a page with resolver = "{dns.name}"',
                f"dns[{index}].queries",
            )


def _cannot_resolve(names: Names, dns: Dns | None) -> Iterator[tuple[str, str]]:
    """Why a group cannot give these names, and the fix."""
    if dns is None:
        yield (
            f'"{names.group}" is not a DNS group, so nobody knows where the hosts are',
            f'add [[dns]] with name = "{names.group}" and queries = 0',
        )
    elif known(dns, "queries") != 0:
        yield (
            f'"{dns.name}" has queries of its own',
            f"set queries = 0 in {dns.name}, or name a group that has it",
        )
    elif dns.client != names.node:
        yield (
            f'"{dns.name}" asks from {dns.client}, but the browsers are at {names.node}',
            f"name a group whose client is {names.node}",
        )


def _neighbours_are_routers(scenario: Tables) -> Faults:
    ends = {
        end: key
        for key, group in _groups(scenario)
        for leg in until_unknown(group.legs())
        for end in (leg.source, leg.target)
    }
    for index, link in enumerate(scenario.links):
        if known(link, "neighbours") != "arp":
            continue
        end = next((end for end in known(link, "between") or () if end in ends), None)
        if end is not None:
            yield refuse(
                f"is for two routers, and {end} is an end of {ends[end]}",
                "set it on a link between routers",
                f"links[{index}].neighbours",
            )


def _paths_exist(scenario: Tables) -> Faults:
    if any(link.between[0] == link.between[1] for link in scenario.links):
        # It is unknown where that link should lead.
        raise Unknown("between")
    network, names = scenario.network(), set(node_names(scenario))
    entries = 0
    apart: set[frozenset[str]] = set()
    for key, group in _groups(scenario):
        for leg in until_unknown(group.legs()):
            ends = frozenset((leg.source, leg.target))
            # Other checks report nodes that do not exist, and groups whose two ends are one node.
            if len(ends) < 2 or not names.issuperset((*ends, *(leg.given or ()))):
                continue
            # If there is no path between two nodes, one error is enough.
            if leg.given is None and ends in apart:
                continue
            try:
                entries += len(_path(network, leg, key))
            except RoutesError:
                yield refuse(
                    "make more routes than can be computed",
                    "use fewer routers or end points",
                    "links",
                )
                return
            except PydanticCustomError as fault:
                if leg.given is None:
                    apart.add(ends)
                yield fault
            if entries > MOST_ROUTE_ENTRIES:
                yield refuse(
                    f"brings the hops of all routes above {MOST_ROUTE_ENTRIES}",
                    "name fewer nodes",
                    f"{key}.{leg.key}",
                )
                return


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
