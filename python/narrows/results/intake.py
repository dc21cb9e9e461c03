"""Makes the tables of a measurement from what the extension's readers return.

The extension returns numbers as floats, with NaN for null. It returns texts as an index for each
row into a list of texts, with the empty text for null, so a name in a million rows is stored once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from narrows.results.schema import Table


def to_frame(
    columns: Mapping[str, Any], table: Table, extra: Mapping[str, pl.DataType] | None = None
) -> pl.DataFrame:
    """Makes a frame of `columns`, with the types of `table` or `extra`.

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


class Chunks:
    """Collects chunks of a table's rows and makes one frame of them, column by column.

    Joining, sorting and selecting whole frames would hold millions of rows three or four times.
    Here, a column's chunks are freed as soon as the column is made.

    Examples:
        >>> from narrows.results.exchanges import MEASUREMENT_TABLES
        >>> chunks = Chunks(MEASUREMENT_TABLES["vantages"], {"file": pl.UInt32()})
        >>> chunks.add(pl.DataFrame({"vantage": ["a", "b"], "file": [0, 0]}))
        >>> chunks.add(pl.DataFrame({"vantage": ["c"], "file": [1]}))
        >>> chunks.columns("file")["file"].to_list()
        [0, 0, 1]
        >>> chunks.frame(pl.Series([2, 0], dtype=pl.UInt32()))["vantage"].to_list()
        ['c', 'a']
    """

    def __init__(self, table: Table, extra: Mapping[str, pl.DataType] | None = None) -> None:
        self._types = dict(table.schema)
        self._extra = dict(extra or {})
        self._parts: dict[str, list[pl.Series]] = {}
        self.height = 0

    def add(self, chunk: pl.DataFrame) -> None:
        """Adds a chunk; all chunks have the same columns."""
        if chunk.height:
            self.height += chunk.height
            for series in chunk.iter_columns():
                self._parts.setdefault(series.name, []).append(series)

    def columns(self, *names: str) -> pl.DataFrame:
        """Returns some columns and keeps their chunks."""
        types = self._types | self._extra
        return pl.DataFrame(
            [self._whole(name, self._parts.get(name), types[name]) for name in names]
        )

    def frame(
        self, rows: pl.Series | None = None, instead: Mapping[str, pl.Series] | None = None
    ) -> pl.DataFrame:
        """Returns the table as a frame and keeps no chunk; a column that no chunk has is null.

        Args:
            rows: Numbers of the wanted rows, in order; None: all rows.
            instead: Columns that are already in order, by name.
        """
        found = []
        for name, dtype in self._types.items():
            parts = self._parts.pop(name, None)
            if instead is not None and name in instead:
                found.append(instead[name].alias(name))
                continue
            whole = self._whole(name, parts, dtype)
            del parts
            found.append(whole if rows is None else whole.gather(rows))
        return pl.DataFrame(found)

    def _whole(self, name: str, parts: list[pl.Series] | None, dtype: pl.DataType) -> pl.Series:
        if parts:
            return pl.concat(parts)
        return pl.Series(name, [None], dtype=dtype).new_from_index(0, self.height)


def covered(exchanges: pl.DataFrame) -> tuple[float, float]:
    """Unix times of the first query and of the last known event; 0 and 0 without queries.

    Examples:
        >>> covered(pl.DataFrame({"started_s": [100.0, 160.0], "total_ms": [40.0, 500.0]}))
        (100.0, 160.5)
    """
    ended = pl.col("started_s") + pl.col("total_ms").fill_null(0.0) / 1e3
    first, last = exchanges.select(first=pl.col("started_s").min(), last=ended.max()).row(0)
    return (0.0, 0.0) if first is None else (float(first), float(last))


def is_utf16(start: bytes) -> bool:
    """Whether a text file begins as UTF-16, with or without a byte order mark.

    Examples:
        >>> is_utf16("[{".encode("utf-16")), is_utf16("[{".encode("utf-16-le")), is_utf16(b"[{")
        (True, True, False)
    """
    marked = start[:2] in (b"\xff\xfe", b"\xfe\xff")
    # Every second byte of ASCII text is zero.
    return marked or (len(start) >= 2 and (start[0] == 0) != (start[1] == 0))
