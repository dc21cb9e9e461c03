"""The scenario language as JSON schema, for editors."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from narrows.scenario.amounts import Quantity
from narrows.scenario.base import Table
from narrows.scenario.copies import COUNT_SCHEMA
from narrows.scenario.model import Scenario
from narrows.scenario.queues import DISCIPLINES
from narrows.scenario.traffic import KINDS


def json_schema() -> dict[str, Any]:
    """The JSON schema of scenario files (draft 2020-12).

    Examples:
        >>> json_schema()["title"]
        'narrows scenario'
    """
    schema = Scenario.model_json_schema(mode="validation", schema_generator=_Generator)
    tables = schema["$defs"]
    for table in tables.values():
        # In Python, the class determines the kind; in a file, the key does.
        if "kind" in table["properties"]:
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
