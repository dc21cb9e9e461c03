"""How long packets take from host to host: the share that takes a time or longer, to the rarest."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.records.plotted import Axis, Declaration, Series
from narrows.results import Run

_TABLE = "delay_bins"


def delayed_groups(run: Run) -> list[tuple[str, str]]:
    """Groups and directions whose packets' one-way delays a run has, in their order."""
    rows = run.table(_TABLE).filter(flow="").select("group", "direction")
    return [(str(a), str(b)) for a, b in rows.unique(maintain_order=True).iter_rows()]


def delays(runs: Mapping[str, Run], only: tuple[str, str] | None = None) -> Declaration:
    """The share of packets that took at least so long, on a logarithmic axis.

    A single run has a curve for each group and direction, or for the given ones. Bins are exact to
    1.6 %.

    Args:
        runs: Runs by label.
        only: A group of `monitor.delays` in each of them, and a direction: `there` or `back`.
    """
    chosen = {"group": only[0], "direction": only[1]} if only else {}
    series = Series(
        next(iter(runs)) if only else "{group}, {direction}",
        _TABLE,
        "from_ms",
        "at_least_percent",
        {"flow": ""} | chosen,
        "before",
        each=() if only else ("group", "direction"),
    )
    return Declaration(
        "delays" + (f"-{only[0]}-{only[1]}" if only else ""),
        "One-way delay" + (f" of {only[0]}, {only[1]}" if only else ""),
        Axis("time from host to host (ms)", ends=(0.0, None)),
        Axis("packets that took\nso long or longer (%)", log=True),
        (series,),
    )
