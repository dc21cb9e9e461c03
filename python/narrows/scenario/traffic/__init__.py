"""Traffic: the kinds of `[[traffic]]`, one file each.

To add a kind, add a file with its class, which is a `Group`, and a line in kinds.py. The file has
the name of the kind (`on_off.py` for `on-off`). The class has a `kind`, its keys, what must hold
between them (methods marked with `rules.rule`), its form in the plan (`lower`), and what it records
in addition to every run's tables (`records`). Everything else follows from the class: checks,
copies, counts, the reference and the JSON schema, the run folder's tables, summaries and reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from narrows.scenario.base import OneOf
from narrows.scenario.traffic.base import Amount as Amount
from narrows.scenario.traffic.base import Countable as Countable
from narrows.scenario.traffic.base import Group as Group
from narrows.scenario.traffic.base import Leg as Leg

if TYPE_CHECKING:
    from narrows.records import Record
    from narrows.scenario.traffic.kinds import *  # noqa: F403


class _Kinds(Mapping[str, type[Group]]):
    """The kinds of traffic by name. A kind's file is imported when it is first looked up."""

    def __init__(self) -> None:
        self._found: dict[str, type[Group]] = {}

    def __getitem__(self, kind: str) -> type[Group]:
        if kind not in self._found:
            module = f"{__name__}.{kind.replace('-', '_')}"
            if not _NAME.fullmatch(kind) or find_spec(module) is None:
                raise KeyError(kind)
            self._found |= _kinds_of(import_module(module))
        return self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(_kinds_of(import_module(f"{__name__}.kinds")))

    def __len__(self) -> int:
        return len(list(iter(self)))


_NAME = re.compile(r"[a-z]+(-[a-z]+)*")


def _kinds_of(module: object) -> dict[str, type[Group]]:
    """The kinds of traffic that a module names."""
    return {
        found.model_fields["kind"].default: found
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, Group) and "kind" in found.model_fields
    }


KINDS: Mapping[str, type[Group]] = _Kinds()
"""The kinds of traffic by name."""

if TYPE_CHECKING:
    Traffic = Group
else:

    class Traffic(OneOf, kinds=KINDS):
        """Any kind of traffic."""


def records() -> dict[str, Record]:
    """What kinds of traffic record, by the name of its table."""
    return {record.table.name: record for kind in KINDS.values() for record in kind.records}


def recorded_by(names: Iterable[object]) -> dict[str, Record]:
    """What the kinds of traffic with these names record, by the name of its table."""
    known = [KINDS[name] for name in names if isinstance(name, str) and name in KINDS]
    return {record.table.name: record for kind in known for record in kind.records}


def __getattr__(name: str) -> Any:
    """Finds a class by its name for those who import it."""
    if name[0].isupper():
        return getattr(import_module(f"{__name__}.kinds"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
