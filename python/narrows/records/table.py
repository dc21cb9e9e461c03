"""The declaration of a run folder's table: columns with their types, units and descriptions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from narrows import _core

if TYPE_CHECKING:
    import polars as pl

TypeName = Literal["u8", "u16", "u32", "u64", "f64", "bool", "string", "list of strings"]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: pl.DataType | TypeName
    """The polars type, or its name in declarations that must not load a library."""
    unit: str
    """Unit of the values; empty for names, flags and row numbers."""
    doc: str
    """One sentence, without the unit."""
    nullable: bool = False
    """Whether a row may have no value."""
    added: bool = False
    """Whether files of earlier versions may lack it; its rows then have no value."""

    @property
    def dtype(self) -> pl.DataType:
        """The type in polars."""
        return _types()[self.type] if isinstance(self.type, str) else self.type


@dataclass(frozen=True)
class Table:
    """A table of a run folder, stored as `NAME.parquet`."""

    name: str
    row: str
    """What a row represents."""
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pl.Schema:
        """Names and types, in order."""
        import polars as pl

        return pl.Schema({column.name: column.dtype for column in self.columns})

    @property
    def began(self) -> str:
        """The column that says when what a row represents began: the first that is in seconds."""
        return next(column.name for column in self.columns if column.unit == "s")

    @property
    def file_name(self) -> str:
        """Its file in a run folder."""
        return f"{self.name}.parquet"


def declared_table(name: str) -> Table:
    """A table that the extension declares."""
    found = _declared()[name]
    columns = tuple(
        Column(
            column["name"],
            column["type"],
            column["unit"],
            _in_one_line(column["about"]),
            nullable="null" in column["notes"],
            added="added" in column["notes"],
        )
        for column in found["columns"]
    )
    about = _in_one_line(found["about"]).removesuffix(".")
    return Table(name, about[0].lower() + about[1:], columns)


@cache
def _types() -> dict[TypeName, pl.DataType]:
    import polars as pl

    return {
        "u8": pl.UInt8(),
        "u16": pl.UInt16(),
        "u32": pl.UInt32(),
        "u64": pl.UInt64(),
        "f64": pl.Float64(),
        "bool": pl.Boolean(),
        "string": pl.String(),
        "list of strings": pl.List(pl.String()),
    }


@cache
def _declared() -> dict[str, Any]:
    return {table["name"]: table for table in json.loads(_core.tables())}


def _in_one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())
