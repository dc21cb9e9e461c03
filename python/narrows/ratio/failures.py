"""How often servers did not answer, and how, over each transport."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from narrows.ratio.resampling import Interval, of_shares
from narrows.results.intervals import wilson

NOT_THE_SERVERS = ("not-asked", "no-reply-seen", "no-query-seen")
"""Outcomes that failure rates leave out: nothing was asked, or a capture has only one half."""


FEW = 10
"""With fewer vantage points, an interval says nothing: none of nine may mean up to 30 %."""


@dataclass(frozen=True)
class Failures:
    """The outcomes of the queries to one server over one transport."""

    server: str
    transport: str
    asked: int
    """The number of queries, without those that were never asked or only half seen."""
    failed: int
    interval: Interval | None
    """The 95 % interval of the failed share, from a bootstrap over vantage points. If each asked
    once, it is Wilson's. If none or all failed, it is Wilson's over the number of vantage points,
    if there are at least `FEW`."""
    kinds: dict[str, int]
    """Failed queries by outcome, the most frequent first."""
    left_out: dict[str, int]
    """Queries that do not count, by outcome."""
    trials: int | None = None
    """The number of vantage points, if each counts as one trial in the interval."""

    @property
    def share(self) -> float:
        """Share that failed."""
        return self.failed / self.asked if self.asked else float("nan")


def failures_of(rows: pl.DataFrame) -> list[Failures]:
    """Failures by server and transport.

    Args:
        rows: Queries with the columns `name`, `transport`, `outcome` and `vantage`.
    """
    found = []
    for (name, transport), part in rows.sort("name", "transport", maintain_order=True).group_by(
        "name", "transport", maintain_order=True
    ):
        counted = part.filter(~pl.col("outcome").is_in(NOT_THE_SERVERS))
        failed = counted["outcome"] != "answered"
        total, count = counted.height, int(failed.sum())
        interval: Interval | None = None
        trials: int | None = None
        if total:
            _, vantage = np.unique(counted["vantage"].to_numpy(), return_inverse=True)
            vantages = int(vantage.max()) + 1
            if vantages == total:
                interval = wilson(count, total)
            elif count in (0, total):
                # A bootstrap would show no spread, so each vantage point counts as one trial.
                if vantages >= FEW:
                    trials = vantages
                    interval = wilson(vantages if count else 0, vantages)
            else:
                interval = of_shares(failed.to_numpy(), vantage.astype(np.int64))
        found.append(
            Failures(
                server=str(name),
                transport=str(transport),
                asked=total,
                failed=count,
                interval=interval,
                kinds=_counts(counted.filter(failed)),
                left_out=_counts(part.filter(pl.col("outcome").is_in(NOT_THE_SERVERS))),
                trials=trials,
            )
        )
    return found


def _counts(rows: pl.DataFrame) -> dict[str, int]:
    counts = rows.group_by("outcome").len().sort("len", "outcome", descending=[True, False])
    return {str(outcome): int(count) for outcome, count in counts.iter_rows()}
