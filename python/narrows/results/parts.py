"""Parts of tables, found without polars' query engine where that is easy.

A query takes a few tenths of a millisecond even on a table of ten rows, and a summary would need a
hundred of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

Mask = npt.NDArray[np.bool_]


def by_value(table: pl.DataFrame, column: str) -> dict[str, pl.DataFrame]:
    """The rows for each value of a column of text, in the order of the values' first rows."""
    if table.is_empty():
        return {}
    first = table.get_column(column)[0]
    if is_any(table, column, (first,)).all():
        return {first: table}
    parts = table.partition_by(column, as_dict=True, maintain_order=True)
    return {str(value): part for (value,), part in parts.items()}


def in_time(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples in the order of their times."""
    times = samples.get_column("t_s").to_numpy()
    return samples if (times[1:] >= times[:-1]).all() else samples.sort("t_s", maintain_order=True)


def where(table: pl.DataFrame, mask: Mask) -> pl.DataFrame:
    """The rows for which the mask is true."""
    return table if mask.all() else table.filter(mask)


def known(table: pl.DataFrame, column: str) -> Mask:
    """Which rows have a value in a column of numbers."""
    series = table.get_column(column)
    if not series.null_count():
        return np.ones(table.height, dtype=np.bool_)
    found: Mask = ~np.isnan(series.to_numpy())
    return found


def is_any(table: pl.DataFrame, column: str, values: Sequence[str]) -> Mask:
    """Which rows have one of these texts in a column."""
    series = table.get_column(column)
    found: Mask = np.zeros(table.height, dtype=np.bool_)
    for value in values:
        equal = series == value
        found |= (equal.fill_null(False) if equal.null_count() else equal).to_numpy()
    return found


def flags(table: pl.DataFrame, column: str) -> Mask:
    """A column of Booleans without nulls."""
    found: Mask = table.get_column(column).to_numpy()
    return found
