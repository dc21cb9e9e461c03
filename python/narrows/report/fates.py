"""How DNS attempts failed: they timed out, or the server ended the connection."""

from __future__ import annotations

import polars as pl

_TIMED_OUT = ("timed-out", "late", "query-lost", "reply-lost")
"""Fates of attempts that the client gave up when its timer ended."""
_ENDED = {
    "closed": "ended because the server closed the connection",
    "reset": "ended because the connection was reset",
    "refused": "were refused a connection",
}


def failed_text(queries: pl.DataFrame, attempts: pl.DataFrame) -> str:
    """A sentence on the failed attempts at measured queries that are done; empty if none failed.

    Args:
        queries: As in `queries.parquet`.
        attempts: As in `attempts.parquet`.
    """
    done = queries.filter(pl.col("measured") & pl.col("end_s").is_not_null())
    made = attempts.join(done.select("query"), on="query", how="semi")
    counts = dict(made.group_by("fate").len().iter_rows())
    timed_out = sum(counts.get(fate, 0) for fate in _TIMED_OUT)
    ended = [(counts[fate], words) for fate, words in _ENDED.items() if fate in counts]
    parts = [f"{timed_out} timed out"] if timed_out else []
    parts += [f"{count} {words}" for count, words in ended]
    if not parts:
        return ""
    *firsts, last = parts
    listed = f"{', '.join(firsts)} and {last}" if firsts else last
    return f"Failed attempts: {listed}."
