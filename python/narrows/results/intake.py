"""From what the extension's readers give to the tables of a measurement.

The extension gives numbers as floats with NaN for none, and texts as a number for each row and the
texts by number, the empty one for none. So a name that stands in a million rows is stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from narrows.results.schema import Table

__all__ = ["concatenated", "to_frame"]


def to_frame(
    columns: Mapping[str, Any], table: Table, extra: Mapping[str, pl.DataType] | None = None
) -> pl.DataFrame:
    """The columns that `columns` has, with the types of `table` or `extra`.

    Examples:
        >>> import numpy as np
        >>> from narrows.results.exchanges import MEASUREMENT_TABLES
        >>> part = {
        ...     "server": (np.array([0, 1, 0], np.uint32), ["192.0.2.1", ""]),
        ...     "port": np.array([53.0, np.nan, 53.0]),
        ... }
        >>> to_frame(part, MEASUREMENT_TABLES["exchanges"]).rows()
        [('192.0.2.1', 53), (None, None), ('192.0.2.1', 53)]
    """
    types = dict(table.schema) | dict(extra or {})
    built = []
    for name, values in columns.items():
        if isinstance(values, tuple):
            codes, texts = values
            known = pl.Series(name, [text or None for text in texts], dtype=pl.String)
            built.append(known.gather(pl.Series(codes)))
        else:
            series = pl.Series(name, values, nan_to_null=values.dtype.kind == "f")
            built.append(series.cast(types[name], strict=True))
    return pl.DataFrame(built)


def concatenated(
    chunks: Sequence[pl.DataFrame], table: Table, extra: Mapping[str, pl.DataType] | None = None
) -> pl.DataFrame:
    """Chunks as one frame with all columns of `table`, in order; a column they lack is null."""
    types = dict(table.schema) | dict(extra or {})
    height = sum(chunk.height for chunk in chunks)
    whole = pl.concat(chunks) if chunks else pl.DataFrame(schema={})
    return (
        whole.select(
            pl.col(name) if name in whole.columns else pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in types.items()
        )
        if height
        else pl.DataFrame(schema=types)
    )
