"""The scenario language as JSON schema, for editors."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from narrows.scenario.amounts import Quantity
from narrows.scenario.base import KINDS_KEY, Table
from narrows.scenario.copies import COUNT_SCHEMA
from narrows.scenario.dns_transports import TRANSPORTS
from narrows.scenario.model import Scenario
from narrows.scenario.partial import tables_in
from narrows.scenario.queues import DISCIPLINES
from narrows.scenario.traffic import KINDS


def json_schema() -> dict[str, Any]:
    """The JSON schema of scenario files (draft 2020-12).

    Examples:
        >>> json_schema()["title"]
        'narrows scenario'
    """
    found = [Scenario, *KINDS.values(), *DISCIPLINES.values(), *TRANSPORTS.values()]
    _, schemas = models_json_schema(
        [(table, "validation") for table in found], schema_generator=_Generator
    )
    tables = _with_kinds(schemas["$defs"])
    classes = {table.__name__: table for table in describe(found)}
    for name, table in tables.items():
        for key, field in classes[name].model_fields.items():
            if field.description:
                described = {"description": field.description, **table["properties"][key]}
                table["properties"][key] = dict(sorted(described.items()))
    schema = {"$defs": tables, **tables.pop("Scenario")}
    for table in tables.values():
        # In Python, the class determines the kind; in a file, the key does.
        if "default" in table["properties"].get("kind", ()):
            table["required"] = ["kind", *table.get("required", [])]
            del table["properties"]["kind"]["default"]
    for name in ("Link", "DirectionKeys"):
        tables[name]["properties"]["framing"]["anyOf"].append({"const": "ethernet"})
    for discipline in DISCIPLINES.values():
        for key in discipline.switched:
            # `true` is a table with its defaults.
            tables[discipline.__name__]["properties"][key]["anyOf"].append({"type": "boolean"})
    copied = {kind.__name__: kind.copied for kind in KINDS.values() if kind.copied}
    for name, keys in {"Link": ("name", "between"), **copied}.items():
        properties = tables[name]["properties"]
        properties["count"] = COUNT_SCHEMA
        for key in keys:
            properties[key] = _with_mark(properties[key])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_without_null(schema),
        "title": "narrows scenario",
        "description": "What the network, its queues and its traffic are, and what is recorded.",
    }


class _Generator(GenerateJsonSchema):
    """Writes defaults as a file would have them."""

    def encode_default(self, dft: Any) -> Any:
        """A default as TOML has it."""
        if isinstance(dft, Quantity):
            return str(dft)
        if isinstance(dft, Table):
            return dft.model_dump(mode="json", exclude_none=True)
        if isinstance(dft, tuple):
            return [self.encode_default(entry) for entry in dft]
        return super().encode_default(dft)


def describe(tables: Iterable[type[Table]]) -> list[type[Table]]:
    """Gives the keys of tables their docstrings as descriptions.

    Pydantic would read all files when it makes the classes. Returns the tables, those in them, and
    their bases, each once.
    """
    found: dict[type[Table], None] = {}
    waiting = list(tables)
    while waiting:
        table = waiting.pop()
        if table not in found:
            found[table] = None
            waiting += [base for base in table.__mro__[1:] if issubclass(base, Table)]
            for name, field in table.model_fields.items():
                field.description = field.description or _meaning(table, name)
                waiting += tables_in(field.annotation)
    return list(found)


def _meaning(table: type[Table], name: str) -> str | None:
    """The docstring of a key in the class that declares it."""
    home = next(base for base in table.__mro__ if name in vars(base).get("__annotations__", {}))
    return _docstrings(home.__module__).get(home.__name__, {}).get(name)


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """The docstrings below the attributes of a module's classes."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                attribute.target.id: inspect.cleandoc(below.value.value)
                for attribute, below in pairwise(node.body)
                if isinstance(attribute, ast.AnnAssign)
                and isinstance(attribute.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            }
    return found


def _with_kinds(schema: Any) -> Any:
    """A schema with the tables of the kinds that `OneOf` names."""
    if isinstance(schema, list):
        return [_with_kinds(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _with_kinds(value) for key, value in schema.items() if key != KINDS_KEY}
    if KINDS_KEY not in schema:
        return found
    mapping = {kind: f"#/$defs/{name}" for kind, name in schema[KINDS_KEY]}
    found["discriminator"] = {"mapping": dict(sorted(mapping.items())), "propertyName": "kind"}
    found["oneOf"] = [{"$ref": place} for place in mapping.values()]
    return dict(sorted(found.items()))


def _without_null(schema: Any) -> Any:
    """A schema without null, which TOML does not have; keys are left out instead."""
    if isinstance(schema, list):
        return [_without_null(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _without_null(value)
        for key, value in schema.items()
        if not (key == "default" and value is None)
    }
    if isinstance(several := kept.get("anyOf"), list):
        several = [one for one in several if one != {"type": "null"}]
        del kept["anyOf"]
        return {**several[0], **kept} if len(several) == 1 else {"anyOf": several, **kept}
    return kept


def _with_mark(schema: Any) -> Any:
    """A schema of names that may also contain the mark for copies."""
    if isinstance(schema, dict):
        return {
            key: r"^([A-Za-z0-9_-]|\{i\})+$" if key == "pattern" else _with_mark(value)
            for key, value in schema.items()
        }
    return [_with_mark(value) for value in schema] if isinstance(schema, list) else schema
