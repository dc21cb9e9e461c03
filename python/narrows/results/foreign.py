"""Tables that only the program knows which wrote them: those of applications of one's own.

Nothing declares what they mean, so they are kept as they come, and stand in no summary or figure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from narrows.records import Column, Table

__all__ = ["PROGRAM", "declared"]

PROGRAM = "program:"
"""What the name of a backend begins with where it is a command: its runs may have such tables."""


def declared(
    backend: str, tables: Mapping[str, Mapping[str, Any] | pl.DataFrame], known: Collection[str]
) -> dict[str, Table]:
    """Tables of a run that are not known, with the types that their columns have.

    Raises:
        ValueError: There is one, and what ran it is no program of its user's.
    """
    unknown = [name for name in tables if name not in known]
    if unknown and not backend.startswith(PROGRAM):
        raise ValueError(f"a run has no table {unknown[0]}")
    return {name: _declared(name, tables[name]) for name in unknown}


def _declared(name: str, table: Mapping[str, Any] | pl.DataFrame) -> Table:
    frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(dict(table))
    columns = (
        Column(column, dtype, "", "Known to the program alone.", nullable=True)
        for column, dtype in frame.schema.items()
    )
    return Table(name, "known to the program alone", tuple(columns))
