"""The scenario language as JSON schema, for editors."""

from __future__ import annotations

from typing import Any

from narrows.scenario.model import Scenario

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """The JSON schema of scenario files (draft 2020-12).

    Examples:
        >>> json_schema()["title"]
        'narrows scenario'
    """
    schema = Scenario.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "narrows scenario",
        "description": "What the network, its queues and its traffic are, and what is recorded.",
    }
