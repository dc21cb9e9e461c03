"""The scenario language as JSON schema, for editors."""

from __future__ import annotations

from typing import Any

from narrows.scenario.copies import COUNT_SCHEMA
from narrows.scenario.model import Scenario
from narrows.scenario.queues import DISCIPLINES
from narrows.scenario.traffic import KINDS

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """The JSON schema of scenario files (draft 2020-12).

    Examples:
        >>> json_schema()["title"]
        'narrows scenario'
    """
    schema = Scenario.model_json_schema(mode="validation")
    tables = schema["$defs"]
    for table in tables.values():
        # In Python a class says its kind; in a file the key does.
        if "kind" in table["properties"]:
            table["required"] = ["kind", *table.get("required", [])]
            del table["properties"]["kind"]["default"]
    for name in ("Link", "Way"):
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
        **schema,
        "title": "narrows scenario",
        "description": "What the network, its queues and its traffic are, and what is recorded.",
    }


def _with_mark(schema: Any) -> Any:
    """A schema of names that may hold the mark of copies as well."""
    if isinstance(schema, dict):
        return {
            key: r"^([A-Za-z0-9_-]|\{i\})+$" if key == "pattern" else _with_mark(value)
            for key, value in schema.items()
        }
    return [_with_mark(value) for value in schema] if isinstance(schema, list) else schema
