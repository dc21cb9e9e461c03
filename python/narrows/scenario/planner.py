"""The plan's lists, which groups fill while they are lowered; each entry is there only once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.scenario.routing import Network
    from narrows.scenario.tcp import Tcp


class Planner:
    """The plan's lists, to which applications refer by index, and random numbers for groups.

    Attributes:
        paths: The plan's paths so far.
        tcp: The plan's TCP settings so far.
        applications: The plan's applications so far.
    """

    def __init__(
        self,
        network: Network,
        nodes: Mapping[str, int],
        *,
        seed: int,
        profile: Callable[[str], str],
    ) -> None:
        """An empty planner.

        Args:
            network: Finds the routes.
            nodes: Indices of the nodes by name.
            seed: The seed of the run.
            profile: Gives a TCP profile's settings as JSON.
        """
        self.paths: list[dict[str, Any]] = []
        self.tcp: list[dict[str, Any]] = []
        self.applications: list[dict[str, Any]] = []
        self._unfinished: list[Callable[[], None]] = []
        self._network = network
        self._nodes = nodes
        self._seed = seed
        self._profile = profile
        self._path_of_links: dict[tuple[int, ...], int] = {}
        self._path_of_ends: dict[tuple[str, str, tuple[str, ...] | None], int] = {}
        self._tcp_of_text: dict[str, int] = {}
        # By identity: groups that give no settings share the default. The objects are kept, so that
        # nothing else gets their identity.
        self._tcp_of_settings: dict[tuple[int, bool | None, bool], tuple[Tcp, int]] = {}

    @property
    def position(self) -> int:
        """The index that the next application gets."""
        return len(self.applications)

    def find(self, name: str, kind: str) -> int:
        """The index of a group's application of a kind; checks have made sure that it exists."""
        for index, application in enumerate(self.applications):
            if application["name"] == name and kind in application["kind"]:
                return index
        raise AssertionError(f"no application of {name} is a {kind}")

    def node(self, name: str) -> int:
        """The index of a node."""
        return self._nodes[name]

    def at_last(self, complete: Callable[[], None]) -> None:
        """Calls `complete` when all groups are lowered."""
        self._unfinished.append(complete)

    def finish(self) -> None:
        """Makes the calls that wait until all groups are lowered."""
        for complete in self._unfinished:
            complete()

    def dns_server_at(self, node: str) -> int:
        """The index of the first DNS server at a node; checks have made sure that it exists."""
        for application in self.applications:
            client = application["kind"].get("dns-client")
            if client is not None and self.paths[client["there"]]["to"] == self._nodes[node]:
                server: int = client["server"]
                return server
        raise AssertionError(f"no DNS server is at {node}")

    def path(self, source: str, target: str, given: tuple[str, ...] | None = None) -> int:
        """The index of the path from one node to another, over the nodes given."""
        ends = (source, target, given)
        if ends not in self._path_of_ends:
            # A path's links determine where it starts and ends.
            links = self._links(*ends)
            if links not in self._path_of_links:
                self._path_of_links[links] = len(self.paths)
                path = {"from": self._nodes[source], "to": self._nodes[target]}
                self.paths.append({**path, "links": list(links)})
            self._path_of_ends[ends] = self._path_of_links[links]
        return self._path_of_ends[ends]

    def link_path(self, link: int, source: str, target: str) -> int:
        """The index of the path along one directed link, for messages between its ends."""
        self.paths.append({"from": self._nodes[source], "to": self._nodes[target], "links": [link]})
        return len(self.paths) - 1

    def _links(self, source: str, target: str, given: tuple[str, ...] | None) -> tuple[int, ...]:
        if given is not None:
            return self._network.along(source, given, target)
        path = self._network.route(source, target)
        assert path is not None, "the scenario's checks found a path"
        return path

    def tcp_settings(self, tcp: Tcp, *, ecn: bool | None = None, fast_open: bool = False) -> int:
        """The index of TCP settings; `ecn` overrides theirs; `fast_open` is not among them."""
        key = (id(tcp), ecn, fast_open)
        if key not in self._tcp_of_settings:
            config = tcp.config(self._profile, ecn=ecn)
            if fast_open:
                config["fast_open"] = True
            text = json.dumps(config, sort_keys=True)
            if text not in self._tcp_of_text:
                self._tcp_of_text[text] = len(self.tcp)
                self.tcp.append(config)
            self._tcp_of_settings[key] = (tcp, self._tcp_of_text[text])
        return self._tcp_of_settings[key][1]

    def chance(self, name: str, what: str) -> float:
        """A number from 0 to below 1, which depends only on the seed, a component and `what`."""
        # Python hashes a text seed with SHA-512, and promises that random() does not change.
        return random.Random(f"{self._seed}/{name}/{what}").random()
