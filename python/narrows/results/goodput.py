"""What groups of TCP connections deliver over time: the table `goodput`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from narrows.records import declared_table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

GOODPUT = declared_table("goodput")


def goodput_series(rows: pl.DataFrame) -> list[tuple[str, str]]:
    """The groups of a table `goodput`, each with the directions in which it carries data.

    Args:
        rows: The table.
    """
    found = rows.select("group", "direction").unique(maintain_order=True)
    order = found.get_column("group").unique(maintain_order=True).to_list()
    return sorted(found.iter_rows(), key=lambda each: order.index(each[0]))


def delivered(rows: pl.DataFrame) -> dict[tuple[str, str], int]:
    """The bytes that each group has delivered at the end, by group and direction.

    Args:
        rows: The table.
    """
    import polars as pl

    last = rows.group_by("group", "direction").agg(pl.col("bytes_received").last())
    return {(group, direction): count for group, direction, count in last.iter_rows()}


def goodput_of(
    rows: pl.DataFrame,
    group: str,
    direction: str = "forward",
    *,
    most: int | None = None,
    least_s: float = 0.0,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The goodput of a group over time.

    Args:
        rows: The table `goodput` of a run.
        group: The group.
        direction: `forward` or `backward`.
        most: The most intervals; if there are more, groups of equal size are joined.
        least_s: The least length of an interval, in seconds, joined likewise. Below a round trip,
            goodput may exceed the link's rate: TCP delivers in order, so data that waited for a
            lost segment come all at once.

    Returns:
        The start of the first interval between samples (zero) and the end of each, in seconds; and
        the mean goodput of each in Mbit/s, which is one number fewer.
    """
    import numpy as np
    import polars as pl

    of_group = rows.filter((pl.col("group") == group) & (pl.col("direction") == direction))
    times, received = (of_group.get_column(name).to_numpy() for name in ("t_s", "bytes_received"))
    # Samples of another program may begin at zero, or have a time twice.
    later = times > np.maximum.accumulate(np.concatenate([[0.0], times]))[:-1]
    times, received = times[later], received[later]
    count = len(times)
    together = 1 if most is None else max(1, -(-count // most))
    if count and 0.0 < least_s < times[-1]:
        together = max(together, math.ceil(least_s / float(times[0])))
    kept = np.arange(together - 1, count, together)
    if count and (not len(kept) or kept[-1] < count - 1):
        kept = np.append(kept, count - 1)
    # The run may end too soon after a sample for a mean.
    ends = np.concatenate([[0.0], times[kept]])
    if len(ends) > 2 and ends[-1] - ends[-2] < 0.5 * (ends[1] - ends[0]):
        kept = np.delete(kept, -2)
        ends = np.delete(ends, -2)
    carried = np.concatenate([[0.0], received[kept]])
    return ends, 8e-6 * np.diff(carried) / np.diff(ends)
