"""Tables of a user's own applications, which only the program that wrote them knows.

Nothing declares their meaning, so they are kept as they are, and no summary or plot uses them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from narrows.records import Column, Table

PROGRAM = "program:"
"""How a backend's name begins if it is a command; its runs may have such tables."""


def declared(
    backend: str, tables: Mapping[str, Mapping[str, Any] | pl.DataFrame], known: Collection[str]
) -> dict[str, Table]:
    """Declarations of a run's unknown tables, with the types that their columns have.

    Raises:
        ValueError: There is an unknown table, and the backend is not a user's program.
    """
    unknown = [name for name in tables if name not in known]
    if unknown and not backend.startswith(PROGRAM):
        raise ValueError(f"a run has no table {unknown[0]}")
    return {name: _declared(name, tables[name]) for name in unknown}


def _declared(name: str, table: Mapping[str, Any] | pl.DataFrame) -> Table:
    frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(dict(table))
    columns = (
        Column(column, dtype, "", "Known only to the program.", nullable=True)
        for column, dtype in frame.schema.items()
    )
    return Table(name, "known only to the program", tuple(columns))
