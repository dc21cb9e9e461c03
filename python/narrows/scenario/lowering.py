"""From a scenario to the simulator's plan: plain values in base units, names to indices.

The plan mirrors `crates/sim/src/plan.rs` key by key, as serde reads it: instants and durations in
picoseconds, rates in bits per second, sizes in bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from narrows.scenario import checks
from narrows.scenario.draws import draw
from narrows.scenario.queue_plan import queue_plan
from narrows.scenario.routing import Network
from narrows.scenario.traffic import Ftp, Group, Once, OnOff

if TYPE_CHECKING:
    from narrows.scenario.dns import Dns
    from narrows.scenario.links import Direction, Framing, Jitter, Ring
    from narrows.scenario.model import Scenario
    from narrows.scenario.monitor import Sampler

__all__ = ["lower"]

_PS = 10**12


def lower(
    scenario: Scenario, *, seed: int, event_limit: int, profile: Callable[[str], str]
) -> dict[str, Any]:
    """The plan of a scenario.

    Args:
        scenario: What to lower; it has been checked.
        seed: 0 to 2**64 - 1.
        event_limit: Events after which the run stops, 1 to 2**64 - 1.
        profile: Gives a TCP profile's settings as JSON.

    Raises:
        ValueError: Seed or event limit is out of range.
    """
    if not 0 <= seed < 2**64:
        raise ValueError(f"the seed must be 0 to {2**64 - 1}")
    if not 1 <= event_limit < 2**64:
        raise ValueError(f"the event limit must be 1 to {2**64 - 1}")
    nodes = checks.node_names(scenario)
    index = {name: position for position, name in enumerate(nodes)}
    network = Network.of(scenario)
    ways = [
        way
        for link in scenario.links
        for way in (link.direction("forward"), link.direction("backward"))
    ]
    paths, tcp = _Paths(index, network), _TcpSettings(profile)
    applications = [_traffic(group, paths, tcp, seed) for group in scenario.traffic]
    for dns in scenario.dns:
        # The server is the next in the list.
        applications += [_dns_client(dns, paths, len(applications) + 1), _dns_server(dns)]
    return {
        "seed": seed,
        "end": scenario.duration,
        "end_with_dns": scenario.end == "dns",
        "event_limit": event_limit,
        "nodes": nodes,
        "links": _links(ways, index),
        "changes": _changes(scenario, ways),
        "tcp": tcp.configs,
        "paths": paths.paths,
        "applications": applications,
        "queue_monitors": _monitors(scenario, scenario.monitor.queues, "queues"),
        "link_monitors": _monitors(scenario, scenario.monitor.links, "links"),
        "captures": checks.select_links(scenario, scenario.monitor.capture, "monitor.capture"),
        "collapse": True,
    }


def _links(ways: list[Direction], index: dict[str, int]) -> list[dict[str, Any]]:
    # Copies of a link share what they are made of; so do their parts of the plan.
    framings: dict[int, dict[str, int]] = {}
    queues: dict[tuple[int, int], dict[str, Any]] = {}
    links = []
    for way in ways:
        framing, queue = id(way.framing), (id(way.queue), way.rate)
        if framing not in framings:
            framings[framing] = _framing(way.framing)
        if queue not in queues:
            queues[queue] = queue_plan(way.queue, way.rate)
        links.append(
            {
                "name": way.name,
                "from": index[way.source],
                "to": index[way.target],
                "rate": way.rate,
                "delay": way.delay,
                "jitter": _jitter(way.jitter),
                "loss": way.loss,
                "dns_exempt": way.dns_exempt,
                "framing": framings[framing],
                "queue": queues[queue],
                "ring": _ring(way.ring),
            }
        )
    return links


def _changes(scenario: Scenario, ways: list[Direction]) -> list[dict[str, Any]]:
    """Changes of directed links in the order of time, each with the rate from then on."""
    changes = []
    rates: dict[int, int] = {}
    for change, links in sorted(checks.select_changes(scenario), key=lambda entry: entry[0].at):
        for link in links:
            rate = rates.get(link, ways[link].rate) if change.rate is None else change.rate
            rates[link] = rate
            changes.append({"at": change.at, "link": link, "rate": rate, "delay": change.delay})
    return changes


def _framing(framing: Framing) -> dict[str, int]:
    return {
        "overhead": framing.overhead,
        "min": framing.min,
        "queue_overhead": framing.queue_overhead,
    }


def _jitter(jitter: Jitter | None) -> dict[str, Any] | None:
    if jitter is None:
        return None
    return {
        "deviation": jitter.deviation,
        "correlation": jitter.correlation,
        "distribution": jitter.distribution,
        "reorder": jitter.reorder,
    }


def _ring(ring: Ring | None) -> dict[str, int] | None:
    if ring is None:
        return None
    if ring.packets is not None:
        return {"packets": ring.packets}
    assert ring.bytes is not None, "a ring has one of the two, as its validator says"
    return {"bytes": ring.bytes}


def _traffic(group: Group, paths: _Paths, tcp: _TcpSettings, seed: int) -> dict[str, Any]:
    connections = list(_connections(group, paths, tcp, seed))
    match group:
        case Once():
            kind = _on_off(connections, draw(group.size), draw(0), 1)
        case OnOff():
            kind = _on_off(connections, draw(group.burst), draw(group.pauses), group.bursts)
        case Ftp():
            kind = _on_off(connections, draw(group.file), draw(group.pause), group.files)
        case _:
            kind = {"bulk": {"connections": connections}}
    return {"name": group.name, "kind": kind}


def _on_off(
    connections: list[dict[str, Any]],
    burst: dict[str, Any],
    idle: dict[str, Any],
    bursts: int | None,
) -> dict[str, Any]:
    return {"on-off": {"connections": connections, "burst": burst, "idle": idle, "bursts": bursts}}


def _connections(
    group: Group, paths: _Paths, tcp: _TcpSettings, seed: int
) -> Iterator[dict[str, Any]]:
    by_chance = isinstance(group, Ftp) and group.servers is not None
    routes: dict[tuple[str, str], tuple[int, int]] = {}
    for number in range(group.total):
        name = f"{group.name}/{number}"
        pair = group.pair(number, _chance(seed, name, "server") if by_chance else 0.0)
        if pair not in routes:
            routes[pair] = (
                paths.index(*pair, group.route),
                paths.index(*pair[::-1], group.route_back),
            )
        there, back = routes[pair]
        chance = _chance(seed, name, "start") if group.stagger == "random" else None
        yield {
            "name": name,
            "there": there,
            "back": back,
            "tcp": tcp.index(group, number),
            "opener": group.opener,
            "start": group.start + group.offset(number, chance),
            "stop": group.stop,
        }


def _dns_client(dns: Dns, paths: _Paths, server: int) -> dict[str, Any]:
    settings = {
        "server": server,
        "there": paths.index(dns.client, dns.server, dns.route),
        "back": paths.index(dns.server, dns.client, dns.route_back),
        "workers": dns.workers,
        "start": dns.start,
        "spread": dns.spread,
        "warm_up": dns.warm_up,
        "queries": dns.queries,
        "think_mean": dns.think_mean,
        "timeouts": dns.timeouts,
        "query_bytes": dns.query_size,
        "reply_bytes": dns.reply_size,
    }
    return {"name": dns.name, "kind": {"dns-client": settings}}


def _dns_server(dns: Dns) -> dict[str, Any]:
    settings = {"service": dns.service, "service_jitter_mean": dns.service_jitter_mean}
    return {"name": dns.name, "kind": {"dns-server": settings}}


def _chance(seed: int, name: str, what: str) -> float:
    """0 to below 1, from the seed and a connection's name alone."""
    # A text as seed goes through SHA-512, and random() is promised not to change.
    return random.Random(f"{seed}/{name}/{what}").random()


def _monitors(scenario: Scenario, sampler: Sampler | None, name: str) -> list[dict[str, int]]:
    if sampler is None:
        return []
    interval = round(_PS / sampler.rate)
    links = checks.select_links(scenario, sampler.links, f"monitor.{name}.links")
    return [{"link": link, "interval": interval} for link in links]


class _Paths:
    """The plan's list of paths, each held once."""

    def __init__(self, nodes: dict[str, int], network: Network) -> None:
        self.paths: list[dict[str, Any]] = []
        self._nodes = nodes
        self._network = network
        self._known: dict[tuple[int, ...], int] = {}
        self._asked: dict[tuple[str, str, tuple[str, ...] | None], int] = {}

    def index(self, source: str, target: str, given: tuple[str, ...] | None) -> int:
        """The index of the path from one node to another, over the nodes given."""
        asked = (source, target, given)
        if asked not in self._asked:
            # Its links say where a path starts and ends.
            links = self._links(*asked)
            if links not in self._known:
                self._known[links] = len(self.paths)
                ends = {"from": self._nodes[source], "to": self._nodes[target]}
                self.paths.append({**ends, "links": list(links)})
            self._asked[asked] = self._known[links]
        return self._asked[asked]

    def _links(self, source: str, target: str, given: tuple[str, ...] | None) -> tuple[int, ...]:
        if given is not None:
            return self._network.along(source, given, target)
        path = self._network.route(source, target)
        assert path is not None, "the scenario's checks found a path"
        return path


class _TcpSettings:
    """The plan's list of TCP settings, each held once."""

    def __init__(self, profile: Callable[[str], str]) -> None:
        self.configs: list[dict[str, Any]] = []
        self._profile = profile
        self._known: dict[str, int] = {}
        self._of_group: dict[tuple[str, bool | None], int] = {}

    def index(self, group: Group, number: int) -> int:
        """The index of the settings of a group's connection."""
        ecn = group.uses_ecn(number)
        if (group.name, ecn) not in self._of_group:
            config = group.tcp.config(self._profile, ecn=ecn)
            text = json.dumps(config, sort_keys=True)
            if text not in self._known:
                self._known[text] = len(self.configs)
                self.configs.append(config)
            self._of_group[group.name, ecn] = self._known[text]
        return self._of_group[group.name, ecn]
