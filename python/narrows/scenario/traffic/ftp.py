"""FTP: sessions in which a client fetches files from a server, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.scenario.amounts import Duration
from narrows.scenario.declared import Declared
from narrows.scenario.draws import Pauses, Sizes
from narrows.scenario.quantities import Name, refuse
from narrows.scenario.rules import Faults, rule
from narrows.scenario.traffic.bursts import Bursts

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner

MOST_CHOICES = 100_000

Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=100_000, fail_fast=True)]


class Ftp(Bursts):
    """Sessions in which a client fetches files from a server, one after the other.

    A session is one connection; `tcp.restart_after_idle = "fresh"` makes every file start as on a
    new one.
    """

    copied: ClassVar[tuple[str, ...]] = ("pairs", "servers", "clients")

    kind: Literal["ftp"] = "ftp"
    """Which kind of traffic this is."""
    servers: Names | None = None
    """Give this and `clients` instead of `sender` and `receiver`, or `pairs`. Each session's
    server, the sender, is one of these, drawn from the scenario's seed and the session's name."""
    clients: Names | None = None
    """The nodes that fetch; each has `connections` sessions."""
    file: Sizes
    """Bytes of a file: a size, a list that starts again at its end, or a distribution such as
    `{ distribution = "pareto", mean = "100 kB", shape = 1.5 }`."""
    pause: Pauses = Duration("0 s")
    """Time from the end of a file to the start of the next: a duration, a list, or a distribution
    such as `{ distribution = "exponential", mean = "1 s" }`."""
    files: Annotated[int, Declared("OnOff", "bursts")] | None = None
    """Files in a session; without it, a session lasts until `stop` or the end of the run."""
    opener: Literal["sender", "receiver"] = "receiver"
    """The end that sends the SYN; the client opens an FTP session."""

    @rule
    def _has_ends(self) -> Faults:
        if (self.servers is None) != (self.clients is None):
            missing = "servers" if self.servers is None else "clients"
            yield refuse("is missing", "servers and clients go together", missing)
            return
        if self.servers is None or self.clients is None:
            yield from super()._has_ends()
            return
        if self.pairs is not None or self.sender is not None or self.receiver is not None:
            yield refuse("excludes sender, receiver and pairs", "give one or the other", "clients")
        elif len(self.servers) * len(self.clients) > MOST_CHOICES:
            yield refuse(
                f"makes more than {MOST_CHOICES} pairs with servers", "name fewer", "clients"
            )
        common = set(self.servers) & set(self.clients)
        if common:
            yield refuse(f'holds the client "{min(common)}"', "name other nodes", "servers")

    @rule
    def _has_two_ends(self) -> Faults:
        if self.servers is None or self.clients is None:
            yield from super()._has_two_ends()

    def _keyed_ends(self) -> Iterator[tuple[str, str]]:
        if self.servers is None or self.clients is None:
            yield from super()._keyed_ends()
            return
        yield from ((f"servers[{index}]", name) for index, name in enumerate(self.servers))
        yield from ((f"clients[{index}]", name) for index, name in enumerate(self.clients))

    def keyed_pairs(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Each pair of sender and receiver that there may be, and its key below the group."""
        if self.servers is None or self.clients is None:
            yield from super().keyed_pairs()
            return
        for index, client in enumerate(self.clients):
            yield from ((f"clients[{index}]", (server, client)) for server in self.servers)

    def pair(self, number: int, chance: Callable[[str], float]) -> tuple[str, str]:
        """Sender and receiver of a session; where there are several servers, chance chooses."""
        if self.servers is None or self.clients is None:
            return super().pair(number, chance)
        server = self.servers[int(chance("server") * len(self.servers))]
        return server, self.clients[number // self.connections]

    @property
    def total(self) -> int:
        """Sessions of the whole group."""
        return self.connections * len(self.clients) if self.clients else super().total

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """A burst for each file."""
        return self.lower_bursts(planner, burst=self.file, idle=self.pause, bursts=self.files)
