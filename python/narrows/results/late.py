"""Finds replies over persistent connections that come too late.

Replies on one connection leave in order, and the connection gets the share of one download on a
full link. If the replies need more, they queue at the server, and the client gives up one query
after another while the connection still carries their replies.
"""

from __future__ import annotations

import polars as pl

from narrows.results.parts import flags, is_any

_FEWEST = 20
_SHARE = 0.05


def late_replies(queries: pl.DataFrame, attempts: pl.DataFrame) -> list[str]:
    """A sentence for each DNS group with many late replies over connections used again.

    Args:
        queries: As in `queries.parquet`.
        attempts: As in `attempts.parquet`.
    """
    if not (is_any(attempts, "fate", ("late",)) & flags(attempts, "reused")).any():
        return []
    replies = attempts.filter(pl.col("reused") & pl.col("fate").is_in(("answered", "late")))
    found = []
    of_groups = replies.join(queries.select("query", "group"), on="query")
    for (group,), own in of_groups.group_by(("group",), maintain_order=True):
        share = (own.get_column("fate") == "late").sum() / own.height
        if own.height >= _FEWEST and share > _SHARE:
            found.append(
                f"{group}: {100 * share:.0f} % of the replies over persistent connections came "
                "after the client had given up; replies wait there for those before them, and a "
                "connection gets no more of a full link than a download does; hint: use more "
                "connections (transport.pipelining = false)"
            )
    return found
