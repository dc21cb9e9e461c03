"""The tables that every run folder has, as the extension declares them (`rows!` in Rust).

Tables are built and checked against the declarations, and the tables of docs/run-folder.md are
generated from them (a test compares them). Runs with some kinds of traffic have further tables
(`narrows.results.extras`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from narrows.records import Column, Record, Table, declared_table
from narrows.results.extras import SAMPLES, records

__all__ = [
    "DROPS",
    "FORMAT",
    "MARKS",
    "TABLES",
    "Column",
    "Table",
    "completed",
    "frame",
    "mismatch",
    "reference",
    "table_reference",
]

FORMAT = 1
"""Version of the run folder's format; a reader refuses any other."""

WIDTH = 100
"""The column at which the documents' prose wraps."""


def frame(table: Table, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Makes a table from columns by name: NumPy arrays, lists or series; NaN becomes null.

    Args:
        table: The declaration of the table.
        columns: Its columns, in any order and of equal length. Texts may be the number of each
            row's text, and the different texts.

    Raises:
        ValueError: A column is missing, unknown, of another length or not of its type.
    """
    names = [column.name for column in table.columns]
    absent = [name for name in names if name not in columns]
    unknown = [name for name in columns if name not in names]
    if absent or unknown:
        what = f"lacks {absent[0]}" if absent else f"does not know {unknown[0]}"
        raise ValueError(f"table {table.name} {what}")
    built = []
    for column in table.columns:
        try:
            series = _series(column, columns[column.name])
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise ValueError(f"table {table.name}, column {column.name}: {error}") from None
        built.append(series)
    lengths = {len(series) for series in built}
    if len(lengths) > 1:
        raise ValueError(f"table {table.name}: columns of {min(lengths)} to {max(lengths)} rows")
    return pl.DataFrame(built)


def completed(table: Table, found: pl.DataFrame) -> pl.DataFrame:
    """A frame with all columns that files of earlier versions may lack."""
    absent = [each for each in table.columns if each.added and each.name not in found.schema]
    return found.with_columns(pl.lit(None, each.dtype).alias(each.name) for each in absent)


def mismatch(table: Table, found: pl.DataFrame) -> str | None:
    """The first way in which a frame differs from this table, in a few words; None if it fits."""
    types = found.schema
    for column in table.columns:
        if column.name not in types:
            return f"has no column {column.name}"
        dtype = types[column.name]
        if dtype != column.dtype:
            return f"column {column.name} is {dtype}, not {column.dtype}"
        if not column.nullable and found.get_column(column.name).null_count():
            return f"column {column.name} has rows without a value"
    extra = [name for name in types if name not in table.schema]
    if extra:
        return f"has a column {extra[0]} that this version does not know"
    return None


def reference() -> str:
    """The tables as Markdown, for docs/run-folder.md: first of every run, then of some runs."""
    parts = [table_reference(table) for table in (*TABLES.values(), *SAMPLES.values())]
    parts += [_record_reference(record) for record in records().values()]
    return "\n".join(parts)


def _record_reference(record: Record) -> str:
    lines = [
        table_reference(record.table),
        f"In the summary, `{record.table.name}` has:",
        "",
        "| metric | unit | meaning |",
        "|---|---|---|",
    ]
    for metric in record.metrics:
        # If tables for people use another unit than the summary, only the key has the summary's.
        unit = metric.unit if metric.scale == 1.0 else metric.key.rpartition("_")[2]
        doc = metric.doc or f"{metric.name[0].upper()}{metric.name[1:]}."
        lines.append(f"| `{metric.key}` | {unit} | {doc} |")
    return "\n".join([*lines, ""])


def _series(column: Column, values: Any) -> pl.Series:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        series = pl.Series(column.name, values, nan_to_null=True)
    elif isinstance(values, tuple):
        codes, texts = values
        series = pl.Series(column.name, texts, dtype=pl.String)[codes]
    else:
        series = pl.Series(column.name, values)
        if series.dtype.is_float():
            series = series.fill_nan(None)
    return series if series.dtype == column.dtype else series.cast(column.dtype, strict=True)


def table_reference(table: Table) -> str:
    """A table as Markdown."""
    lines = [
        f"### `{table.file_name}`",
        "",
        *textwrap.wrap(f"One row: {table.row}.", WIDTH),
        "",
        "| column | type | unit | meaning |",
        "|---|---|---|---|",
    ]
    for column in table.columns:
        kind = _TYPE_NAMES[column.dtype] + (", null" if column.nullable else "")
        lines.append(f"| `{column.name}` | {kind} | {column.unit} | {column.doc} |")
    return "\n".join([*lines, ""])


_TYPE_NAMES: dict[pl.DataType, str] = {
    pl.UInt8(): "u8",
    pl.UInt16(): "u16",
    pl.UInt32(): "u32",
    pl.UInt64(): "u64",
    pl.Float64(): "f64",
    pl.Boolean(): "bool",
    pl.String(): "string",
    pl.List(pl.String()): "list of strings",
    pl.List(pl.UInt32): "list of u32",
}


_FATES = Column(
    "fates",
    "list of strings",
    "",
    "What became of each attempt, in order, such as `answered` or "
    "`reply-lost: early at bottleneck.forward`.",
)
"""The attempts of a query in words, which no table of a simulator has."""

DROPS: Mapping[str, str] = {r: f"dropped_{r}" for r in ("overflow", "early", "forced")}
"""The columns of the table `queues` that count dropped packets, by the reason."""

MARKS: Mapping[str, str] = {r: f"marked_{r}" for r in ("early", "forced")}
"""The columns of the table `queues` that count marked packets, by the reason."""

_QUERIES = declared_table("queries")
TABLES: Mapping[str, Table] = {
    "flows": declared_table("flows"),
    "queries": replace(_QUERIES, columns=(*_QUERIES.columns, _FATES)),
    **{name: declared_table(name) for name in ("attempts", "queues", "links")},
}
"""The tables of every run by name, in the order of the documentation."""
