"""A second look at a refused scenario, for errors behind those at which pydantic stopped.

Pydantic stops at the first wrong entry of a long array, and checks no rules of a table that has a
wrong value. This module reads each entry, and makes partial tables, which lack the wrong values.
The rules of a partial table find further errors, and skip what they cannot know (`rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from narrows.errors import MOST_TOGETHER
from narrows.scenario.base import OneOf, Table
from narrows.scenario.copies import Copies, Miscounted
from narrows.scenario.queues.base import Settings
from narrows.scenario.rules import FAULT, MOST_FAULTS, Fault, Unreadable
from narrows.scenario.suggestions import suggestions

LOOKED_AT = 200
"""The most wrong entries of an array that are read: a file may have a million."""


class Look(NamedTuple):
    """What a second look finds."""

    arrays: set[str]
    """The arrays whose entries it has read."""
    details: list[ErrorDetails]
    """Errors in these entries."""
    faults: list[tuple[str, Fault]]
    """What rules of partial tables found: the path of the table, and the fault."""


def look_again(model: type[Table], copies: Copies) -> Look:
    """Reads a refused scenario again.

    Args:
        model: The scenario's class.
        copies: Its values.
    """
    look = Look(set(), [], [])
    tables: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        for annotation in _of_entries(field.annotation):
            if isinstance(copies.values.get(name), list | tuple):
                look.arrays.add(name)
                tables[name] = tuple(_entries(annotation, name, copies, look))
    _partial(model, copies.values, "", look, tables)
    return look


def _entries(annotation: Any, name: str, copies: Copies, look: Look) -> Iterator[Any]:
    """Yields the entries of an array of tables, with partial tables for the wrong ones."""
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    wrong = 0
    seen: set[str] = set()
    for place, entry in enumerate(copies.values[name]):
        path = f"{name}[{place}]"
        try:
            made = adapter.validate_python(entry)
            yield Unreadable() if isinstance(entry, Miscounted) else made
            continue
        except ValidationError as error:
            details = error.errors(include_url=False)[:LOOKED_AT]
        wrong += 1
        if wrong > LOOKED_AT:
            yield Unreadable()
            return
        # Copies of a table have the same errors.
        origin = copies.written(path)
        if origin not in seen:
            seen.add(origin)
            for detail in details:
                if detail["type"] != FAULT or not isinstance(entry, Miscounted):
                    look.details.append({**detail, "loc": (name, place, *detail["loc"])})
        table = None if isinstance(entry, Miscounted) else _class_of(annotation, entry)
        yield Unreadable() if table is None else _partial(table, entry, path, look)


def _partial(
    table: type[Table],
    values: Mapping[str, Any],
    path: str,
    look: Look,
    read: Mapping[str, Any] | None = None,
) -> Table:
    """A table without its wrong values; notes what its rules find.

    Args:
        table: Its class.
        values: Its values in the file.
        path: Its path.
        look: Where faults are noted.
        read: Values that were read before.
    """
    found = dict(read or {})
    doubtful = _may_be_mistyped(table, values)
    for name, field in table.model_fields.items():
        if name in found:
            continue
        if name in values:
            below = f"{path}.{name}" if path else name
            try:
                found[name] = _reader(table, name).validate_python(values[name])
            except ValidationError:
                inner = _look_inside(field.annotation, values[name], below, look)
                if inner is not None:
                    found[name] = inner
        elif not field.is_required() and name not in doubtful:
            found[name] = field.get_default(call_default_factory=True)
    made = table.model_construct(_fields_set=values.keys() & table.model_fields, **found)
    for name in table.model_fields.keys() - found.keys():
        made.__dict__.pop(name, None)
    wanted = max(0, MOST_FAULTS - len(look.faults))
    look.faults.extend((path, fault) for fault in islice(made.faults(), wanted))
    return made


def _look_inside(annotation: Any, value: Any, path: str, look: Look) -> Table | None:
    """Notes what the rules of the tables in a wrong value find.

    Returns a partial table if the value is a table in which only single values are wrong.
    """
    if isinstance(value, list | tuple):
        for inner in _of_entries(annotation):
            for place, entry in enumerate(value[:LOOKED_AT]):
                _look_inside(inner, entry, f"{path}[{place}]", look)
    table = _class_of(annotation, value)
    if table is None:
        return None
    before = len(look.faults)
    made = _partial(table, value, path, look)
    return made if len(look.faults) == before else None


def _class_of(annotation: Any, value: Any) -> type[Table] | None:
    """The class of the table that a value is, if only one fits.

    Pydantic reads queues, because the meaning of a queue's key depends on its other keys.
    """
    if not isinstance(value, Mapping):
        return None
    kind = value.get("kind")
    fitting = [
        table
        for table in tables_in(annotation, entries=False)
        if "kind" not in table.model_fields or table.model_fields["kind"].default == kind
    ]
    return fitting[0] if len(fitting) == 1 and not issubclass(fitting[0], Settings) else None


def _may_be_mistyped(table: type[Table], values: Mapping[str, Any]) -> set[str]:
    """The missing keys that a mistyped one may stand for."""
    known = table.model_fields
    missing = known.keys() - values.keys()
    found: set[str] = set()
    unknown = values.keys() - known.keys()
    if len(unknown) > MOST_TOGETHER:
        return missing
    for key in unknown:
        suggested = suggestions(str(key), list(known))
        found |= missing.intersection(suggested) if suggested else missing
    return found


@lru_cache(1024)
def _reader(table: type[Table], name: str) -> TypeAdapter[Any]:
    """Reads a single value of a table."""
    field = table.model_fields[name]
    annotation: Any = Annotated[field.annotation, field]
    return TypeAdapter(annotation)


def tables_in(annotation: Any, *, entries: bool = True) -> Iterator[type[Table]]:
    """Yields the table classes that a value may have or, with `entries`, its entries may have."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    if isinstance(annotation, type) and issubclass(annotation, OneOf):
        yield from annotation.kinds.values()
    if entries or get_origin(annotation) is not tuple:
        for part in get_args(annotation):
            yield from tables_in(part, entries=entries)


def _of_entries(annotation: Any) -> Iterator[Any]:
    """Yields the types that an array's entries may have, if they may be tables."""
    if get_origin(annotation) is not tuple:
        for part in get_args(annotation):
            yield from _of_entries(part)
    elif any(tables_in(annotation)):
        yield get_args(annotation)[0]
