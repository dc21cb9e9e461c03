"""Differentiated Services code points: numbers, or the names that RFCs give them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from narrows.scenario.quantities import refuse
from narrows.scenario.suggestions import suggestion

NAMES = {
    # RFC 8622, RFC 3246, RFC 5865.
    **{"LE": 1, "EF": 46, "VA": 44},
    # RFC 2474, 4.2.2.
    **{f"CS{number}": 8 * number for number in range(8)},
    # RFC 2597, 6.
    **{f"AF{n}{drop}": 8 * n + 2 * drop for n in range(1, 5) for drop in range(1, 4)},
}
"""The code points with names."""


def _read(value: Any) -> int:
    if isinstance(value, str):
        if value not in NAMES:
            raise refuse(
                f'"{value}" is no code point', suggestion(value, list(NAMES)) or 'such as "EF"'
            )
        return NAMES[value]
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse("is no code point", 'a number from 0 to 63, or a name such as "EF"')
    if not 0 <= value <= 63:
        raise refuse("must be 0 to 63", 'or a name such as "EF"')
    return value


Dscp = Annotated[
    int,
    Field(ge=0, le=63),
    BeforeValidator(_read),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 63},
                {"enum": sorted(NAMES, key=NAMES.__getitem__)},
            ],
            "title": 'code point: 0 to 63, or a name such as `"EF"`',
        }
    ),
]
"""A code point."""
