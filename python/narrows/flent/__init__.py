"""Flent's data files (`.flent.gz`): runs written as Flent would, and Flent's files read as runs.

Source: Flent 2.3 (tohojo/flent), `flent/resultset.py`, file format 4, and `flent/tests/*.conf` for
the names of series. A file is JSON with `metadata`, `x_values`, `results` (series at these times),
`raw_values` (every measured value with its time since 1970) and `version`.
"""

from __future__ import annotations

from narrows.flent.reading import FlentError, read_flent
from narrows.flent.writing import write_flent

__all__ = ["FlentError", "read_flent", "write_flent"]
