"""Disciplines with others inside: bands by strict priority, rate-limited classes, and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from narrows.scenario.base import Table
from narrows.scenario.quantities import Name, PositiveBytes, Rate, Size, at_least, refuse
from narrows.scenario.queues.fields import Switch
from narrows.scenario.queues.fifo import Pfifo

if TYPE_CHECKING:
    from narrows.scenario.queues import Queue

__all__ = ["Band", "Class", "Classes", "Match", "Prio", "nested"]

MOST_BANDS = 64
DEEPEST = 4

Port = Annotated[int, Field(strict=True, ge=1, le=65_535)]


class Match(Table):
    """What a packet must be like: everything that is given must hold."""

    protocol: Literal["udp", "tcp"] | None = None
    """Its transport protocol; DNS runs over UDP."""
    port: Port | None = None
    """A port at either end; 53 is DNS."""
    sport: Port | None = None
    """Its source port."""
    dport: Port | None = None
    """Its destination port."""
    min_bytes: Size | None = None
    """Its least length, the link's `framing.queue_overhead` included."""
    max_bytes: Size | None = None
    """Its largest length."""
    ecn: Switch | None = None
    """Whether it is of an ECN-capable transport."""

    @model_validator(mode="after")
    def _is_possible(self) -> Match:
        if all(getattr(self, key) is None for key in type(self).model_fields):
            raise refuse(
                "matches every packet", "name a condition; the last entry takes what is left"
            )
        if (
            self.min_bytes is not None
            and self.max_bytes is not None
            and self.min_bytes > self.max_bytes
        ):
            raise refuse("is above max_bytes", "exchange or mend them", "min_bytes")
        return self


Matches = Annotated[tuple[Match, ...], Field(max_length=MOST_BANDS, fail_fast=True)]


class _Inner(Table):
    name: Name
    """Unique in its queue."""
    match: Matches = ()
    """Packets that are like one of these go here, unless an entry before has taken them; the last
    entry takes what none matches."""
    queue: Queue = Pfifo(limit=1000)
    """Its queue discipline; by default a pfifo of 1000 packets."""


class Band(_Inner):
    """A band of `prio`."""


class Class(_Inner):
    """A class of `classes`."""

    rate: Rate | None = None
    """The rate that the class is held to, with `framing.queue_overhead` counted; without it, the
    class may send what the line takes."""
    burst: Annotated[PositiveBytes, at_least(1500, "1500 B")] | None = None
    """What it may send at once after a silence; goes with `rate`. A packet longer than this never
    leaves."""

    @model_validator(mode="after")
    def _is_possible(self) -> Class:
        if self.rate is None and self.burst is not None:
            raise refuse("goes with rate", 'such as rate = "1 Mbit/s", or leave burst out', "burst")
        if self.rate is not None and self.burst is None:
            raise refuse("is missing beside rate", 'such as burst = "10 kB"', "burst")
        return self


class Prio(Table):
    """Strict priority with filters: the first band that has a packet sends (tc-prio(8))."""

    kind: Literal["prio"] = "prio"
    """Which discipline this is."""
    bands: Annotated[tuple[Band, ...], Field(min_length=1, max_length=MOST_BANDS, fail_fast=True)]
    """The bands, the one to be served first in front."""

    @model_validator(mode="after")
    def _is_possible(self) -> Prio:
        _check("bands", self.bands)
        return self


class Classes(Table):
    """Rate-limited classes with filters: of those that may send, the first does.

    Each is a token bucket (tc-tbf(8)); they do not borrow from each other as in tc-htb(8).
    """

    kind: Literal["classes"] = "classes"
    """Which discipline this is."""
    classes: Annotated[
        tuple[Class, ...], Field(min_length=1, max_length=MOST_BANDS, fail_fast=True)
    ]
    """The classes, the one to be served first in front."""

    @model_validator(mode="after")
    def _is_possible(self) -> Classes:
        _check("classes", self.classes)
        return self


def nested(queue: Any) -> tuple[Band | Class, ...]:
    """The bands or classes of a queue; none where it is not classful."""
    match queue:
        case Prio():
            return queue.bands
        case Classes():
            return queue.classes
        case _:
            return ()


def _check(key: str, entries: tuple[Band | Class, ...]) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if entry.name in seen:
            raise refuse(f'"{entry.name}" is taken', "give them names", f"{key}[{index}].name")
        seen.add(entry.name)
        if not entry.match and index < len(entries) - 1:
            raise refuse(
                "is missing, so that nothing comes here",
                "only the last entry takes what is left; give it match, or put it last",
                f"{key}[{index}].match",
            )
        if _depth(entry.queue) >= DEEPEST:
            raise refuse(
                f"has disciplines inside each other more than {DEEPEST} deep", "", f"{key}[{index}]"
            )


def _depth(queue: Any) -> int:
    return 1 + max((_depth(entry.queue) for entry in nested(queue)), default=0)
