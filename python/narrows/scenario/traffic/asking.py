"""Clients that ask servers over TCP: what `incast` and `page` share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from narrows.scenario.amounts import DataSize, Duration
from narrows.scenario.declared import Declared, find
from narrows.scenario.draws import Amounts, Pauses, TransferDistribution, draw
from narrows.scenario.quantities import Name, refuse
from narrows.scenario.rules import Faults, rule
from narrows.scenario.tcp import Tcp
from narrows.scenario.traffic.base import Group, Leg

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner

LONGEST = int(find("Incast", "block")["most"])


def bounded(sizes: Amounts, key: str) -> Faults:
    """Yields what is wrong if an answer is too long."""
    hint = 'at most "1 GB"'
    if isinstance(sizes, TransferDistribution):
        if sizes.mean > LONGEST:
            yield refuse("is too long for an answer", hint, f"{key}.mean")
    elif isinstance(sizes, tuple):
        for index, size in enumerate(sizes):
            if size > LONGEST:
                yield refuse("is too long for an answer", hint, f"{key}[{index}]")
    elif isinstance(sizes, int) and sizes > LONGEST:
        yield refuse("is too long for an answer", hint, key)


class Asking(Group):
    """A client that asks servers, each of which answers with as many bytes as it is asked for."""

    client: Name
    """The node that asks."""
    request: Annotated[DataSize, Declared("Incast", "request")] = DataSize("300 B")
    """Bytes of a request."""
    service: Pauses = Duration("0 s")
    """Time from a request's arrival at a server to its answer: a duration, a list that starts again
    at its end, or a distribution such as `{ distribution = "exponential", mean = "5 ms" }`."""
    tcp: Tcp = Tcp.usual()
    """TCP settings of both ends. Nagle's algorithm is off unless `nagle = true` is given here,
    because programs that send requests and answers turn it off."""

    @property
    def wants_ecn(self) -> bool:
        """Whether its connections negotiate ECN."""
        return self.tcp.wants_ecn

    @property
    def has_connections(self) -> bool:
        """Whether it may open connections: it does."""
        return True

    def tcp_settings(self, planner: Planner) -> int:
        """The index of its TCP settings in the plan."""
        tcp = self.tcp if self.tcp.nagle is not None else self._without_nagle
        return planner.tcp_settings(tcp)

    @cached_property
    def _without_nagle(self) -> Tcp:
        return self.tcp.model_copy(update={"nagle": False})

    def paths(self, planner: Planner, server: str) -> dict[str, int]:
        """The path to a server, and the path back."""
        return {
            "there": planner.path(self.client, server),
            "back": planner.path(server, self.client),
        }

    def responder(self, planner: Planner, secure: dict[str, Any] | None = None) -> dict[str, Any]:
        """The application that answers at all servers; `secure` says how it encrypts."""
        tcp = self.tcp_settings(planner)
        return self.application("responder", tcp=tcp, service=draw(self.service), secure=secure)

    def keyed_servers(self) -> Iterator[tuple[str, str]]:
        """Each server, with its key."""
        raise NotImplementedError

    def keyed_nodes(self) -> Iterator[tuple[str, str]]:
        """The client, and each server."""
        yield "client", self.client
        yield from self.keyed_servers()

    def legs(self) -> Iterator[Leg]:
        """The path to each server, and the path back."""
        for key, server in self.keyed_servers():
            yield Leg(self.client, server, None, "", key)
            yield Leg(server, self.client, None, "", key)

    @rule
    def _asks_other_nodes(self) -> Faults:
        for key, server in self.keyed_servers():
            if server == self.client:
                yield refuse("is also the client", "name another node", key)
