"""What all queue disciplines of the language have in common."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict

from narrows import _core
from narrows.scenario.declared import DeclaredTable
from narrows.scenario.quantities import refuse
from narrows.scenario.rules import Faults, rule


class Facts(NamedTuple):
    """Facts about a queue with its settings."""

    unit: str
    """`bytes` or `packets`: the unit of its backlog in plots."""
    levels: tuple[tuple[str, float], ...]
    """Backlogs at which its behaviour changes, in that unit, with their names."""
    target: int | None
    """The waiting time that it aims for, in picoseconds; None if it has no such target."""
    several_lines: bool
    """Whether packets wait in several queues, so that waiting times differ between flows."""
    held: int
    """How many queues it holds from the start, including those of disciplines inside it."""


class Settings(DeclaredTable):
    """A discipline's settings, or a table among them."""

    # The extension gives the meanings. Pydantic must not search the source for them: it has none,
    # and the search takes a while.
    model_config = ConfigDict(use_attribute_docstrings=False)

    switched: ClassVar[tuple[str, ...]] = ()
    """Keys that take a table, or `true` for one with its defaults."""


class Discipline(Settings):
    """A queue discipline, made from the extension's declaration."""

    label: ClassVar[str]
    """Its name in titles."""
    decides_at_enqueue: ClassVar[bool]
    """Whether it makes every decision when a packet arrives."""

    kind: str

    def plain(self) -> dict[str, Any]:
        """The queue as a plan has it, in base units."""
        values = super().plain()
        return {values.pop("kind"): values}

    @property
    def facts(self) -> Facts:
        """Facts about a queue with these settings."""
        return _facts(json.dumps(self.plain()))

    def wrong_at(self, rate: int) -> tuple[str, str, str] | None:
        """What is wrong with a queue served at a rate in bits per second: key, message, remedy."""
        return _settled(json.dumps(self.plain()), rate)[1]

    def settled(self, rate: int) -> dict[str, Any]:
        """The plan's form of a queue that is served at a rate in bits per second.

        Everything that follows from other settings or from the rate is filled in.

        Examples:
            >>> from narrows.scenario import Red
            >>> Red(limit="90 kB").settled(10_000_000)["red"]["max"]
            22500
        """
        settled, _ = _settled(json.dumps(self.plain()), rate)
        assert settled is not None, "links are checked with their queues"
        plan: dict[str, Any] = json.loads(settled)
        return plan

    @rule
    def _is_possible(self) -> Faults:
        wrong = _wrong(json.dumps(self.plain()))
        if wrong is not None:
            key, what, hint = wrong
            yield refuse(what, hint, key)


class Undeclared(Discipline):
    """A discipline that the extension does not declare. What it does with settings is not known."""

    decides_at_enqueue: ClassVar[bool] = False

    @property
    def facts(self) -> Facts:
        """No more is known than that it has a backlog."""
        return Facts("packets", (), None, several_lines=True, held=0)

    def wrong_at(self, rate: int) -> None:
        """Whoever has the discipline judges its settings when the run begins."""

    def settled(self, rate: int) -> dict[str, Any]:
        """The plan's form; no rate settles anything."""
        return self.plain()


# Cached, because links that `count` copies have the same queue.
@lru_cache(4096)
def _wrong(plan: str) -> tuple[str, str, str] | None:
    return _core.check_queue(plan)


@lru_cache(4096)
def _settled(plan: str, rate: int) -> tuple[str | None, tuple[str, str, str] | None]:
    return _core.settle_queue(plan, rate)


@lru_cache(4096)
def _facts(plan: str) -> Facts:
    values = json.loads(_core.queue_facts(plan))
    levels = tuple((name, level) for name, level in values.pop("levels"))
    return Facts(levels=levels, **values)
