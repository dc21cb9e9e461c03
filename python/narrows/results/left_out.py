"""Notes on what means leave out: the slowest items, which were not complete when the run ended.

The mean load time of two out of four pages says little about a slow queue: the slower the queue,
the more slow loads it leaves out. Tables for runs, sweeps and comparisons say so in the same words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from narrows.results.metrics import completed_text, recorded


def left_out(
    summaries: Sequence[Mapping[str, Any]], shown: Collection[str] | None = None
) -> list[str]:
    """Sentences on what the runs' means leave out, one for each group of traffic; usually none.

    Args:
        summaries: The summaries of the runs.
        shown: The paths of the metrics that are shown; None: all are.
    """
    found = []
    for name, record in recorded(summaries).items():
        if record.completed is None:
            continue
        for path, title, of_runs in _parts(summaries, name, record.title):
            keys = (record.completed.begun, "completed")
            sums = {key: sum(metrics.get(key) or 0 for metrics in of_runs) for key in keys}
            means = {f"{at}.{key}" for at in (name, path) for key in record.completed.metrics}
            if shown is not None and not means.intersection(shown):
                continue
            if text := completed_text(sums, record):
                found.append(
                    f"{title}: only {text} ended; times leave out the others, which took longer; "
                    "hint: set a longer duration"
                )
    return found


def _parts(
    summaries: Sequence[Mapping[str, Any]], name: str, title: str
) -> Iterator[tuple[str, str, list[Mapping[str, Any]]]]:
    """The path and title of each group, or of the only one, and its metrics in each run."""
    of_runs = [metrics for summary in summaries if (metrics := summary.get(name))]
    alone = [metrics for metrics in of_runs if not metrics.get("groups")]
    if alone:
        yield name, title, alone
    for group in dict.fromkeys(group for metrics in of_runs for group in metrics.get("groups", ())):
        own = [of for metrics in of_runs if (of := metrics.get("groups", {}).get(group))]
        yield f"{name}.groups.{group}", f"{title}, group {group}", own
