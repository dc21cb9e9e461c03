"""The whole of a scenario: its tables, and what must hold between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from narrows import _core
from narrows.errors import ScenarioError
from narrows.scenario import checks, copies, listings, lowering, reading
from narrows.scenario.base import Table
from narrows.scenario.changes import Change
from narrows.scenario.dns import Dns
from narrows.scenario.faults import scenario_error
from narrows.scenario.links import Link
from narrows.scenario.monitor import Monitor
from narrows.scenario.overrides import override
from narrows.scenario.quantities import Name, PositiveSpan
from narrows.scenario.traffic import KINDS, Countable, Group, Traffic

__all__ = ["Nodes", "Scenario"]

_FILES = {name: kind.listed for name, kind in KINDS.items()}


class Nodes(Table):
    """The nodes, where they shall be declared; otherwise the links' ends are the nodes."""

    hosts: Annotated[tuple[Name, ...], Field(fail_fast=True)] = ()
    """Nodes that send and receive, and forward nothing."""
    routers: Annotated[tuple[Name, ...], Field(fail_fast=True)] = ()
    """Nodes that forward."""


class Scenario(Table):
    """A scenario: what the network, its queues and its traffic are, and what is recorded.

    Made from a file (`load`), from text (`parse`), or from the classes of `narrows.scenario`,
    which have the same keys; made that way, faults are pydantic's `ValidationError`.

    Examples:
        >>> scenario = Scenario.parse('''
        ... name = "one-link"
        ... duration = "10 s"
        ... [[links]]
        ... name = "wan"
        ... between = ["a", "b"]
        ... rate = "2 Mbit/s"
        ... ''', set={"links.wan.delay": "5 ms"})
        >>> scenario
        <Scenario one-link: 1 link, at most 10 s>
        >>> scenario.links[0].direction("forward").delay
        5000000000
    """

    name: Name
    """The scenario's name."""
    description: Annotated[str, Field(max_length=10_000)] = ""
    """What it is about."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)] = 1
    """Every random stream is derived from it and a component's name."""
    duration: PositiveSpan
    """The run ends here at the latest."""
    end: Literal["dns"] | None = None
    """`"dns"` ends the run as soon as every resolver worker is done."""
    event_limit: Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)] = 10_000_000_000
    """The run stops, as partial, after this many events."""
    nodes: Nodes | None = None
    """The nodes; optional, as links name them too. With it, a link to a node that it does not
    list is an error, and hosts forward nothing."""
    links: Annotated[tuple[Link, ...], Field(min_length=1, max_length=50_000, fail_fast=True)]
    """Two-way links between nodes."""
    changes: Annotated[tuple[Change, ...], Field(max_length=10_000, fail_fast=True)] = ()
    """Links that change at a time."""
    traffic: Annotated[tuple[Traffic, ...], Field(max_length=10_000, fail_fast=True)] = ()
    """Groups of traffic."""
    dns: Annotated[tuple[Dns, ...], Field(max_length=10_000, fail_fast=True)] = ()
    """Groups of resolver workers."""
    monitor: Monitor = Monitor()
    """What is sampled and captured."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        checks.check(self)
        return self

    @classmethod
    def load(cls, path: str | Path, set: Mapping[str, str] | None = None) -> Self:
        """Reads a scenario file.

        Args:
            path: A TOML file.
            set: Overrides, by dotted key: `{"links.bottleneck.rate": "5 Mbit/s"}`.

        Raises:
            ScenarioError: The file cannot be read, or the scenario is invalid.
        """
        return cls._build(reading.read(path), str(path), set or {})

    @classmethod
    def parse(
        cls, text: str, set: Mapping[str, str] | None = None, *, file: str = "<text>"
    ) -> Self:
        """Reads a scenario from TOML text; `file` is what errors call it.

        Raises:
            ScenarioError: The text is no TOML, or the scenario is invalid.
        """
        return cls._build(reading.parse(text, file), file, set or {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, file: str = "<dict>") -> Self:
        """Reads what `resolved` gave.

        Raises:
            ScenarioError: The scenario is invalid.
        """
        return cls._build(dict(values), file, {})

    @classmethod
    def _build(cls, values: dict[str, Any], file: str, changes: Mapping[str, str]) -> Self:
        for key, value in changes.items():
            override(values, key, value, file)
        values = copies.expand(listings.anchored(values, file, _FILES), file)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise scenario_error(error, values, cls, file) from None
        except RecursionError:
            raise ScenarioError(file, "", "is nested too deeply") from None

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Everything that uses the network, each with its key: traffic, then resolver workers."""
        yield from ((f"traffic[{index}]", group) for index, group in enumerate(self.traffic))
        yield from ((f"dns[{index}]", group) for index, group in enumerate(self.dns))

    @classmethod
    def countables(cls) -> tuple[Countable, ...]:
        """What scenarios may have so many of, in all their groups together."""
        groups: list[type[Group]] = [*KINDS.values(), Dns]
        return tuple(dict.fromkeys(of for group in groups for of in group.countables))

    def amounts(self) -> dict[Countable, int]:
        """How many of each the groups have together."""
        found = dict.fromkeys(self.countables(), 0)
        for _, group in self.groups():
            for amount in group.amounts():
                found[amount.of] += amount.number
        return found

    def __repr__(self) -> str:
        consists_of = {group.countables[0] for _, group in self.groups() if group.countables}
        counts = [_count(len(self.links), "link", "links")]
        counts += [
            _count(number, of.one, of.many)
            for of, number in self.amounts().items()
            if of in consists_of
        ]
        return (
            f"<Scenario {self.name}: {', '.join(counts)}, "
            f"at most {_core.format_span(self.duration)}>"
        )

    def _repr_html_(self) -> str:
        """What it says, as a table for notebooks: its groups by name, and their settings."""
        told = self.resolved()
        rows = []
        for kind in ("links", "traffic", "dns"):
            for group in told.get(kind, ()):
                settings = {key: value for key, value in group.items() if key != "name"}
                rows.append((kind, group["name"], settings))
        cells = "".join(
            f"<tr><td>{kind}</td><td>{escape(name)}</td>"
            f'<td style="text-align:left">{escape(_words(settings))}</td></tr>'
            for kind, name, settings in rows
        )
        return f"<p>{escape(repr(self))}<br>{escape(self.description)}</p><table>{cells}</table>"

    def resolved(self) -> dict[str, Any]:
        """The scenario as plain JSON values, with its defaults; `from_dict` reads it back."""
        return self.model_dump(mode="json", exclude_none=True)

    def plan(self, seed: int | None = None, *, event_limit: int | None = None) -> dict[str, Any]:
        """What the simulator is told: plain JSON values in base units.

        Args:
            seed: Instead of the scenario's own.
            event_limit: Instead of the scenario's own.
        """
        return lowering.lower(
            self,
            seed=self.seed if seed is None else seed,
            event_limit=self.event_limit if event_limit is None else event_limit,
            profile=_core.tcp_profile,
        )


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _words(settings: Mapping[str, Any]) -> str:
    """Settings in one line, inner tables in parentheses."""
    return ", ".join(
        f"{key} ({_words(value)})"
        if isinstance(value, dict)
        else f"{key} {' to '.join(value) if key == 'between' else value}"
        for key, value in settings.items()
    )
