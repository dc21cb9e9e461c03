"""The names of web pages: how long browsers wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from narrows.records import Metric, Plot, Record, Series, declared_table

if TYPE_CHECKING:
    import polars as pl


def _summarise_lookups(lookups: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    import numpy as np
    import polars as pl

    from narrows.records.numbers import floats, mean, percentile

    asked = lookups.filter(~pl.col("cached"))
    times = floats((asked.get_column("end_s") - asked.get_column("asked_s")).drop_nulls())
    waits = _waits_for_names(lookups)
    median = percentile(times, 0.5)
    return {
        "names": lookups.height,
        "cached": lookups.height - asked.height,
        "failed": int(lookups.get_column("failed").sum()),
        "lookup_p50_ms": None if median is None else 1e3 * median,
        "waited_mean_s": mean(np.array([waited for waited, _ in waits])),
        "waited_share": mean(np.array([waited / load for waited, load in waits if load > 0])),
    }


def _waits_for_names(lookups: pl.DataFrame) -> list[tuple[float, float]]:
    """For each completed load: the time in which it waited for a name, and its load time."""
    waits = []
    for _, load in (
        lookups.drop_nulls("load_s")
        .sort("asked_s")
        .group_by("group", "browser", "load", maintain_order=True)
    ):
        waited, until = 0.0, 0.0
        for start, end in load.select("asked_s", "end_s").drop_nulls().iter_rows():
            waited += max(0.0, end - max(start, until))
            until = max(until, end)
        waits.append((waited, load.item(0, "load_s")))
    return waits


def _lookups_say(metrics: Mapping[str, Any]) -> str | None:
    if metrics["waited_mean_s"] is None:
        return None
    return (
        f"On average, a completed load waited for names for {metrics['waited_mean_s']:.4g} s of "
        f"its time, {100 * metrics['waited_share']:.3g} % of it."
    )


LOOKUPS = Record(
    table=declared_table("lookups"),
    title="names of pages",
    metrics=(
        Metric("names", "names", doc="Names that loads needed, each once in a load."),
        Metric("cached", "known already", doc="Names that the browser knew, without a query."),
        Metric(
            "failed",
            "without an answer",
            doc="Names for which the resolver gave up. Each fails its page.",
            better="lower",
        ),
        Metric(
            "lookup_p50_ms",
            "time for a name, median",
            "ms",
            doc="Time from the question to the answer, or until the resolver gave up, median; of "
            "names that the browser did not know.",
            better="lower",
        ),
        Metric(
            "waited_mean_s",
            "wait for names in a load, mean",
            "s",
            doc="Time in which a load waited for at least one name, mean; of completed loads only, "
            "like the next one.",
            better="lower",
        ),
        Metric(
            "waited_share",
            "share of load time spent waiting for names",
            "%",
            100,
            doc="Share of a load's time in which it waited for at least one name, mean.",
            better="lower",
        ),
    ),
    summarise=_summarise_lookups,
    plots=(
        Plot(
            "page-names-cdf",
            title="Time until a page has a name",
            x="time (s)",
            y="names known\nwithin this time (%)",
            caption=(
                "From when a page first needs a name until it has the answer; 0 for a name that "
                "the browser knows. The curve ends below 100 % where the resolver gave up later, "
                "or the load ended before."
            ),
            says=_lookups_say,
            series=(Series("", "lookups", ("-", "end_s", "asked_s"), shape="cdf"),),
        ),
    ),
)
