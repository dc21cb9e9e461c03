"""Windows, round trips, rates and states of connections over time: the table `flow_states`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.records import declared_table

if TYPE_CHECKING:
    import polars as pl

FLOW_STATES = declared_table("flow_states")


def sampled_groups(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The samples of each group, in the order of their first samples.

    Args:
        rows: The table.
    """
    parts = rows.partition_by("group", as_dict=True, maintain_order=True)
    return {str(group): part for (group,), part in parts.items()}


def sampled_connections(rows: pl.DataFrame) -> dict[int, pl.DataFrame]:
    """The samples of each connection of a group, by its number.

    Args:
        rows: The samples of the group.
    """
    parts = rows.partition_by("connection", as_dict=True, maintain_order=True)
    return {int(number): part for (number,), part in sorted(parts.items())}
