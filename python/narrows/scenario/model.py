"""A whole scenario: read, checked, shown, and lowered to the plan."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from narrows import _core
from narrows.errors import ScenarioError
from narrows.scenario import (
    captures,
    checks,
    copies,
    listings,
    lowering,
    measured_delays,
    reading,
    sampled_flows,
)
from narrows.scenario.faults import as_written, scenario_error
from narrows.scenario.overrides import set_all
from narrows.scenario.rules import Faults, rule
from narrows.scenario.tables import Tables
from narrows.scenario.traffic import KINDS

_OF_PLANS = {"vary", "variants"}
"""Tables that plans of sweeps have, and scenarios have not."""


class Scenario(Tables):
    """A scenario: the network, its queues and its traffic, and what is recorded.

    Make one from a file (`load`), from text (`parse`), or from the classes of `narrows.scenario`,
    which have the same keys. The classes report faults as pydantic's `ValidationError`.

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
        '5 ms'
        >>> scenario.with_({"links.wan.rate": "4 Mbit/s"}, seed=7).links[0].rate.mbit_per_s
        4.0
    """

    @rule
    def _tables_fit(self) -> Faults:
        return checks.faults(self)

    @rule
    def _captures_are_possible(self) -> Faults:
        return captures.faults(self)

    @rule
    def _delays_are_of_groups(self) -> Faults:
        return measured_delays.faults(self)

    @rule
    def _flows_are_known(self) -> Faults:
        return sampled_flows.faults(self)

    @classmethod
    def load(cls, path: str | Path, set: Mapping[str, Any] | None = None) -> Self:
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
        cls, text: str, set: Mapping[str, Any] | None = None, *, file: str = "<text>"
    ) -> Self:
        """Reads a scenario from TOML text; errors use the name `file` for it.

        Raises:
            ScenarioError: The text is not TOML, or the scenario is invalid.
        """
        return cls._build(reading.parse(text, file), file, set or {})

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        *,
        file: str = "<dict>",
        written: Mapping[str, str] | None = None,
    ) -> Self:
        """Reads values of TOML's types, such as `written` returns.

        Args:
            values: The values.
            file: The name that errors use for them.
            written: Keys as the user wrote them, by their paths, for errors.

        Raises:
            ScenarioError: The scenario is invalid.
        """
        return cls._read(dict(values), file, written or {})

    @classmethod
    def of(
        cls, source: str | Path | Scenario | Mapping[str, Any], set: Mapping[str, Any] | None = None
    ) -> Scenario:
        """Makes a scenario from a file, from another scenario, or from values of TOML's types.

        Args:
            source: A path, a scenario, or values.
            set: Values by dotted key, as `with_` takes them.

        Raises:
            ScenarioError: The file cannot be read, or the scenario is invalid.
        """
        if isinstance(source, str | Path):
            return cls._build(reading.read(source), str(source), set or {})
        if isinstance(source, Mapping):
            return cls._build(copy.deepcopy(dict(source)), "<dict>", set or {})
        return source.with_(set) if set else source

    def with_(self, set: Mapping[str, Any] | None = None, /, **keys: Any) -> Scenario:
        """The scenario with some keys changed, validated as a whole.

        Args:
            set: Values by dotted key, as for `load`: `{"queue.limit": 100}`. Text that is valid
                TOML is parsed; other text and all other values are used as they are.
            **keys: Keys without dots: `duration="60 s"`, `seed=3`.

        Raises:
            ScenarioError: A key leads nowhere, or the scenario would be invalid.
        """
        return self._build(self.written(), self.name, {**(set or {}), **keys})

    @classmethod
    def _build(cls, values: dict[str, Any], file: str, changes: Mapping[str, Any]) -> Self:
        if "links" not in values and not _OF_PLANS.isdisjoint(values):
            raise ScenarioError(
                file,
                "",
                "is the plan of a sweep, not a scenario",
                f"narrows sweep SCENARIO.toml --plan {file}",
            )
        return cls._read(values, file, set_all(values, changes, file))

    @classmethod
    def _read(cls, values: Mapping[str, Any], file: str, written: Mapping[str, str]) -> Self:
        """Reads values; `written` has the keys that were set, by their paths, for errors."""
        expanded = copies.expand(listings.anchored(values, file, _listed), file)
        details = []
        try:
            made = cls.model_validate(expanded.values)
            if not expanded.errors:
                return made
        except ValidationError as error:
            details = error.errors(include_url=False)
        except RecursionError:
            raise ScenarioError(file, "", "is nested too deeply") from None
        raise as_written(scenario_error(details, expanded, cls, file), written) from None

    def __repr__(self) -> str:
        firsts = [next(iter(group.amounts()), None) for _, group in self.groups()]
        consists_of = {amount.of for amount in firsts if amount is not None}
        counts = [_count(len(self.links), "link", "links")]
        counts += [
            _count(number, of.one, of.many)
            for of, number in self.amounts().items()
            if of in consists_of
        ]
        return f"<Scenario {self.name}: {', '.join(counts)}, at most {self.duration!s}>"

    def _repr_html_(self) -> str:
        """A table for notebooks: its groups by name, and their settings."""
        from html import escape

        resolved = self.resolved()
        rows = []
        for kind in ("links", "traffic", "dns"):
            for group in resolved.get(kind, ()):
                settings = {key: value for key, value in group.items() if key != "name"}
                rows.append((kind, group["name"], settings))
        cells = "".join(
            f"<tr><td>{kind}</td><td>{escape(name)}</td>"
            f'<td style="text-align:left">{escape(_words(settings))}</td></tr>'
            for kind, name, settings in rows
        )
        return f"<p>{escape(repr(self))}<br>{escape(self.description)}</p><table>{cells}</table>"

    def resolved(self) -> dict[str, Any]:
        """The scenario as plain JSON values, with its defaults: a record of what was run."""
        return self.model_dump(mode="json", exclude_none=True)

    def written(self) -> dict[str, Any]:
        """The scenario as plain JSON values, with the keys that were given; `from_dict` reads it.

        What was left out stays so: a profile may give it, and other keys may exclude it.
        """
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)

    def plan(self, seed: int | None = None, *, event_limit: int | None = None) -> dict[str, Any]:
        """The plan for the simulator: plain JSON values in base units.

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


def with_files(values: Mapping[str, Any], rename: Callable[[str], str]) -> dict[str, Any]:
    """A scenario's values, in which `rename` gives the name of each file that they name."""
    return listings.renamed(values, rename, _listed)


def file_keys() -> frozenset[str]:
    """All keys of links and of traffic that name files. This imports every kind of traffic."""
    of_traffic = (key for kind in KINDS.values() for key in kind.listed)
    return frozenset({*listings.LINK_KEYS, *of_traffic})


def _listed(kind: str) -> Sequence[str]:
    """The keys of a kind of traffic that name files; none of an unknown kind."""
    known = KINDS.get(kind)
    return () if known is None else known.listed


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
