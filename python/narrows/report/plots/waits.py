"""How long packets wait in a queue: the share that waits for a time or longer, to the rarest."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from narrows.records.plotted import Axis, Declaration, Series
from narrows.results import Run

_TABLE = "queue_delay_bins"


def waiting_classes(run: Run) -> list[tuple[str, str]]:
    """Links and ECN fields whose packets' waiting times a run has, in their order."""
    rows = run.table(_TABLE).select("link", "ecn").unique(maintain_order=True)
    return [(str(link), str(ecn)) for link, ecn in rows.iter_rows()]


def waits(runs: Mapping[str, Run], link: str, ecn: str | None = None) -> Declaration:
    """The share of packets that waited at least so long, on a logarithmic axis.

    A single run has a curve for each ECN field, or for the given one. Bins are exact to 1.6 %.

    Args:
        runs: Runs by label.
        link: A link of `monitor.queue_delays` in each of them.
        ecn: Only packets that arrived with this ECN field.
    """
    series = Series(
        next(iter(runs)) if ecn else "{ecn}",
        _TABLE,
        "from_ms",
        "at_least_percent",
        {"link": link} | ({"ecn": ecn} if ecn else {}),
        "before",
        each=() if ecn else ("ecn",),
    )
    whose = f" of {ecn} packets" if ecn else ""
    name = f"waits-{link}" + (f"-{ecn}" if ecn else "")
    return _declared(name, f"Time{whose} in the queue at {link}", series)


_MOST_CLASSES = 10
"""The most classes that a plot shows: more curves cannot be told apart."""


def shown_classes(run: Run, link: str) -> tuple[list[str], int]:
    """The classes of a queue that its plot shows, in their order, and how many had packets.

    If there are many, those with the most packets are shown.
    """
    rows = run.table("queue_class_delays").filter(link=link).filter(pl.col("sent_packets") > 0)
    most = rows.sort("sent_packets", descending=True, maintain_order=True).head(_MOST_CLASSES)
    shown = set(most["class"])
    return [name for name in rows["class"] if name in shown], len(rows)


def class_waits(run: Run, link: str) -> Declaration:
    """The share of packets of each class of a queue that waited at least so long.

    Args:
        run: A run.
        link: A link of `monitor.queue_delays` whose queue has classes: bands, tins, or those of
            DualPI2.
    """
    shown, classes = shown_classes(run, link)
    columns = ("queue_class_delay_bins", "from_ms", "at_least_percent")
    series = [Series(n, *columns, {"link": link, "class": n}, "before") for n in shown]
    title = f"Time in each class of the queue at {link}"
    if len(shown) < classes:
        title = f"Time in the {len(shown)} classes with most packets, of {classes}, at {link}"
    return _declared(f"class-waits-{link}", title, *series)


def _declared(name: str, title: str, *series: Series) -> Declaration:
    return Declaration(
        name,
        title,
        Axis("time until transmission began (ms)", ends=(0.0, None)),
        Axis("packets that waited\nso long or longer (%)", log=True),
        series,
    )
