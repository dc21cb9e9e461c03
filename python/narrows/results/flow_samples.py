"""What TCP connections had done when the declared window began and ended: `flow_samples`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.records import declared_table

if TYPE_CHECKING:
    import polars as pl

FLOW_SAMPLES = declared_table("flow_samples")


def flows_within(
    flows: pl.DataFrame, samples: pl.DataFrame, window: tuple[float, float]
) -> pl.DataFrame:
    """The connections that were open within a window or tried to open, with what they did in it.

    Args:
        flows: The table `flows`.
        samples: The table `flow_samples`, with a sample at each end of the window but none at 0.
        window: Its start and end, in seconds.

    Returns:
        The table `flows` with the differences of the counters, and the smoothed round-trip time at
        the window's end. `start_s` and `end_s` lie within the window.
    """
    import polars as pl

    others = ("t_s", "flow", "srtt_ms")
    names = [column.name for column in FLOW_SAMPLES.columns if column.name not in others]
    start, end = window
    before = {name: pl.col(name).first() if start > 0.0 else 0 for name in names}
    changes = samples.group_by("flow", maintain_order=True).agg(
        *((pl.col(name).last() - before[name]).alias(name) for name in names),
        pl.col("srtt_ms").last(),
    )
    return (
        flows.drop([*names, "srtt_ms"])
        .join(changes, on="flow", how="left", maintain_order="left")
        .with_columns(
            pl.col("start_s").clip(lower_bound=start),
            pl.col("end_s").clip(upper_bound=end),
        )
        .filter(
            (pl.col("start_s").is_null() & (pl.col("segments_sent") > 0))
            | (pl.col("start_s") < end) & ((pl.col("end_s") > start) | pl.col("end_s").is_null())
        )
    )
