"""A resolved scenario as TOML text, so that a report can contain the scenario that it shows.

The text has the form in which people write scenarios: queues and the like are inline tables, and an
array is one line. `scenarios/dns-behind-red.toml` becomes 84 lines with 9 headings. tomli-w 1.2
writes 147 lines with 17 headings for it, and 20,000 lines for a rate trace of 20,000 numbers.
tomlkit 0.15 has inline tables, but takes 1.1 s for 4,000 numbers, and four times that for twice as
many.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date, time
from typing import Any


def toml_text(values: Mapping[str, Any]) -> str:
    """TOML that reads back as ``values``; keys without a value (None) are left out.

    Raises:
        ValueError: A value has no form in TOML.

    Examples:
        >>> print(toml_text({"name": "a", "links": [{"rate": "1 Mbit/s", "ring": {"packets": 8}}]}))
        name = "a"
        <BLANKLINE>
        [[links]]
        rate = "1 Mbit/s"
        ring = { packets = 8 }
        <BLANKLINE>
    """
    lines = []
    tables: list[tuple[str, Mapping[str, Any]]] = []
    for key, value in values.items():
        if _is_tables(value):
            tables += [(f"[[{_key(key)}]]", entry) for entry in value]
        elif isinstance(value, Mapping):
            tables.append((f"[{_key(key)}]", value))
        elif value is not None:
            lines.append(f"{_key(key)} = {inline(value)}")
    for head, table in tables:
        lines += ["", head]
        lines += [f"{_key(k)} = {inline(v)}" for k, v in table.items() if v is not None]
    return "\n".join([*lines, ""])


def _is_tables(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(entry, Mapping) for entry in value)
    )


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def inline(value: Any) -> str:
    """A value as TOML on one line.

    Raises:
        ValueError: It has no form in TOML.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(entry) for entry in value) + "]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {inline(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, date | time):
        return value.isoformat()
    raise ValueError(f"{type(value).__name__} has no form in TOML")


def _text(text: str) -> str:
    # JSON's escapes are TOML's, except for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
