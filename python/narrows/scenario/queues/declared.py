"""The disciplines as classes of the language, from the extension's declarations.

Each discipline in crates/qdisc declares its name and its keys with their types, ranges, defaults
and meanings; `_core.queue_disciplines` passes them on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model, field_serializer

from narrows import _core
from narrows.scenario import declared
from narrows.scenario.amounts import DataSize
from narrows.scenario.base import OneOf
from narrows.scenario.declared import annotation, text
from narrows.scenario.queues.base import Discipline, Settings

TABLES: dict[str, type[Settings]] = {}
"""Tables among the disciplines' settings, by their Python names."""


def _table(key: dict[str, Any]) -> Any:
    """The type of a table; if it is optional, `true` means its defaults, and `false` no table."""
    table = _declared_table(key["of"])
    if not key["optional"]:
        return table

    def read(value: Any) -> Any:
        if value is True:
            return table()
        return None if value is False else value

    return Annotated[table | None, BeforeValidator(read)]


def _tables(key: dict[str, Any]) -> Any:
    entry: Any = _declared_table(key["of"]["of"])
    least = int(key["least"]) or None
    length = Field(min_length=least, max_length=int(key["most"]), fail_fast=True)
    return Annotated[tuple[entry, ...], length]


def _annotation(key: dict[str, Any]) -> Any:
    """The type of a key's values."""
    match key["kind"]:
        case "table":
            return _table(key)
        case "list":
            return _tables(key)
        case "choice":
            found: Any = Queue
        case _:
            found = annotation(key)
    return found | None if key["optional"] else found


def default(key: dict[str, Any]) -> Any:
    """A key's default, also if it holds a table, a list or a discipline."""
    if key["required"]:
        return ...
    if key["kind"] == "list":
        return ()
    if key["kind"] == "choice" and isinstance(key["default"], str):
        made = DISCIPLINES[key["default"]]
        # Nothing is read here, so that pydantic would not know how to write it.
        made.model_rebuild()
        return made.model_construct(**DISCIPLINES.defaults(key["default"]))
    return declared.default(key)


def _in_unit(self: Any, value: float | None) -> Any:
    """A number of packets unchanged, or bytes as a size."""
    return str(DataSize(int(value))) if self.unit == "bytes" and value is not None else value


def _declare(
    name: str, base: type[Settings], table: dict[str, Any], first: dict[str, Any]
) -> type[Any]:
    """Makes a class with the keys of a table, after the keys that come first."""
    keys = table["keys"]
    fields = {
        key["name"]: (
            _annotation(key),
            Field(default=default(key), description=text(key["about"])),
        )
        for key in keys
    }
    in_unit = [key["name"] for key in keys if key["kind"].endswith("-in-unit")]
    validators: dict[str, Any] = {}
    if in_unit:
        validators["_in_its_unit"] = field_serializer(*in_unit, when_used="json")(_in_unit)
    made: type[Any] = create_model(
        name,
        __base__=base,
        __module__="narrows.scenario.queues",
        __doc__=text(table["about"]),
        __validators__=validators,
        **{**first, **fields},
    )
    made.declared = {"kind": {"kind": "words"}} if first else {}
    made.declared |= {key["name"]: key for key in keys}
    made.switched = tuple(key["name"] for key in keys if key["kind"] == "table" and key["optional"])
    return made


def _declared_table(table: dict[str, Any]) -> type[Settings]:
    name = table["name"]
    if name not in TABLES:
        TABLES[name] = _declare(name, Settings, table, {})
    return TABLES[name]


def _declared_discipline(listed: dict[str, Any]) -> type[Discipline]:
    kind = listed["name"]
    name = "".join(part.capitalize() for part in kind.split("-"))
    which = Field(default=kind, description="Which discipline this is.")
    made: type[Discipline] = _declare(
        name, Discipline, listed["table"], {"kind": (Literal[kind], which)}
    )
    made.label = listed["label"]
    made.decides_at_enqueue = listed["decides_at_enqueue"]
    return made


_UNDECLARED = ("plugin", "tc")
"""Kinds that the extension does not declare. Each has a file of its name here."""


class _Disciplines(Mapping[str, type[Discipline]]):
    """The classes of the disciplines by name; each is made when it is first looked up."""

    def __init__(self) -> None:
        self._listed = {each["name"]: each for each in json.loads(_core.queue_disciplines())}
        self._made: dict[str, type[Discipline]] = {}

    def __getitem__(self, name: str) -> type[Discipline]:
        if name in _UNDECLARED:
            found: type[Discipline] = getattr(
                import_module(f"narrows.scenario.queues.{name}"), name.capitalize()
            )
            return found
        if name not in self._made:
            self._made[name] = _declared_discipline(self._listed[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._listed, *_UNDECLARED])

    def __len__(self) -> int:
        return len(self._listed) + len(_UNDECLARED)

    def defaults(self, name: str) -> dict[str, Any]:
        """The declared defaults of its keys, of those too that a scenario has to give."""
        keys = self._listed[name]["table"]["keys"] if name in self._listed else []
        return {key["name"]: key["default"] for key in keys}


DISCIPLINES = _Disciplines()
"""All disciplines by name, in the order in which they are documented."""

if TYPE_CHECKING:
    Queue = Discipline
else:

    class Queue(OneOf, kinds=DISCIPLINES):
        """Any queue discipline."""
