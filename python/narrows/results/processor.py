"""Processor time of a guest kernel for the packets of each node: the table `processor`.

A guest that `narrows kernel prepare` has built has a meter (`backends/kernel/guest.toml`). The
meter counts time of the machine that runs the guest, not of the run's clock: in virtual time, a
kernel's work takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from narrows.records import Column, Counter, Metric, Plot, Record, Series, Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl


def processor_load(
    rows: pl.DataFrame, node: str, end_s: float, *, every_s: float = 1.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The load that a node's packets put on the processor.

    Args:
        rows: The table `processor` of a run.
        node: The node.
        end_s: The end of the run, in seconds.
        every_s: Length of an interval.

    Returns:
        The intervals' ends in seconds, and the load in each in percent.

    Raises:
        ValueError: The table has nothing of that node.
    """
    import numpy as np
    import polars as pl

    of_node = rows.filter(pl.col("node") == node).sort("t_s")
    if of_node.is_empty():
        raise ValueError(f"the processor's time of {node} was not measured")
    ends = np.arange(every_s, end_s + 1e-9, every_s)
    times, spent = (of_node.get_column(name).to_numpy() for name in ("t_s", "cpu_s"))
    return ends, 100.0 * np.diff(np.interp(ends, times, spent), prepend=spent[0]) / every_s


def _summarise(rows: pl.DataFrame, end_s: float) -> dict[str, Any]:
    import polars as pl

    last = rows.group_by("node").agg(pl.col("cpu_s", "turns").last())
    spent, turns = float(last.get_column("cpu_s").sum()), int(last.get_column("turns").sum())
    return {
        "cpu_s": spent,
        "load_percent": 100.0 * spent / end_s if end_s else None,
        "turn_us": 1e6 * spent / turns if turns else None,
    }


def _load_says(metrics: Mapping[str, Any]) -> str | None:
    return (
        f"Lines over time: packets took {metrics['cpu_s']:.3g} s of the processor in all, "
        f"{metrics['turn_us']:.3g} us each time that the kernel worked on them."
    )


PROCESSOR = Record(
    table=Table(
        "processor",
        "a sample of the processor time that a node's packets have cost the guest; only nodes "
        "with a monitored queue have rows, and only guests that `narrows kernel prepare` built",
        (
            Column("t_s", "f64", "s", "When the sample was taken, by the run's clock."),
            Column("node", "string", "", "The node."),
            Column(
                "cpu_s",
                "f64",
                "s",
                "Time that the machine has computed for the node's packets since the kernel "
                "started: for receiving, routing, queueing and sending, but not for system calls "
                "of processes.",
            ),
            Column(
                "turns",
                "u64",
                "",
                "How often the kernel began to work on a packet that arrived, or on a queue.",
            ),
        ),
    ),
    title="processor",
    metrics=(
        Metric(
            "cpu_s",
            "processor time of packets",
            "s",
            doc="Processor time of all these nodes together.",
            better="lower",
        ),
        Metric(
            "load_percent",
            "processor load",
            "%",
            doc="`cpu_s` divided by the run's length.",
            better="lower",
        ),
        Metric(
            "turn_us",
            "processor time of a turn",
            "us",
            doc="`cpu_s` divided by `turns`.",
            better="lower",
        ),
    ),
    summarise=_summarise,
    whole=True,
    plots=(
        Plot(
            "processor",
            title="What packets cost the processor",
            x="time (s)",
            y="load, % of a core",
            caption=(
                "Measured: the time that this machine computed for a node's packets, over the "
                "run's time. This leaves out a network card's interrupts and includes the meter's "
                "own two readings of the clock."
            ),
            says=_load_says,
            series=(
                Series(
                    "{node}",
                    "processor",
                    "t_s",
                    ("*", 100.0, "cpu_s"),
                    each=("node",),
                    change=Counter(slot_s=1.0, from_zero=False),
                ),
            ),
        ),
    ),
)
