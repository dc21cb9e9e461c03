"""What means leave out: items that were not complete when the run ended, which are the slowest.

The mean load time of two out of four pages says little about a slow queue: the slower the queue,
the more of its slow loads are left out. So tables mention it, in the same words for runs, sweeps
and comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narrows.results.extras import records
from narrows.results.metrics import completed_text

__all__ = ["left_out"]


def left_out(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on what the runs' means leave out, one for each kind of traffic; mostly none."""
    found = []
    for name, record in records().items():
        of_runs = [figures for summary in summaries if (figures := summary.get(name))]
        if record.completed is None or not of_runs:
            continue
        keys = (record.completed.begun, "completed")
        sums = {key: sum(figures.get(key) or 0 for figures in of_runs) for key in keys}
        if text := completed_text(sums, record):
            found.append(
                f"{record.title}: only {text} came to their end; times leave out the others, which "
                "took longer; hint: a longer duration"
            )
    return found
