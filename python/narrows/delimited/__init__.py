"""Other people's measurements, as delimiter-separated values (CSV, RFC 4180), into a run folder."""

from __future__ import annotations

from narrows.delimited.reading import COLUMNS, CsvError, read_csv

__all__ = ["COLUMNS", "CsvError", "read_csv"]
