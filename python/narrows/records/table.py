"""The declaration of a run folder's table: columns with their types, units and descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Column", "Table"]

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
        import polars as pl

        types: dict[TypeName, pl.DataType] = {
            "u8": pl.UInt8(),
            "u16": pl.UInt16(),
            "u32": pl.UInt32(),
            "u64": pl.UInt64(),
            "f64": pl.Float64(),
            "bool": pl.Boolean(),
            "string": pl.String(),
            "list of strings": pl.List(pl.String()),
        }
        return types[self.type] if isinstance(self.type, str) else self.type


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
