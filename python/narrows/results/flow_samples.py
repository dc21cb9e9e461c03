"""What TCP connections had done when the declared window began and ended: `flow_samples`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.records import Column, Table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FLOW_SAMPLES", "flows_within"]

_COUNTERS = (
    Column("bytes_received", "u64", "bytes", "As in `flows`, so far."),
    Column("segments_sent", "u64", "segments", "As in `flows`, so far."),
    Column("segments_retransmitted", "u64", "segments", "As in `flows`, so far."),
    Column("timeouts", "u32", "", "As in `flows`, so far.", nullable=True),
    Column("ecn_reductions", "u32", "", "As in `flows`, so far.", nullable=True),
)

FLOW_SAMPLES = Table(
    "flow_samples",
    "a connection of the table `flows` at the start or the end of the window that `[measure]` "
    "declares; the end of the run stands for a window's end after it",
    (
        Column("t_s", "f64", "s", "When the sample was taken, from the start of the run."),
        Column("flow", "u32", "", "Number of the connection in `flows`."),
        *_COUNTERS,
        Column("srtt_ms", "f64", "ms", "Smoothed round-trip time; null: unknown.", nullable=True),
    ),
)


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

    names = [column.name for column in _COUNTERS]
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
