"""Levels, intervals and differences in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport.design import PAPER_H
from narrows.study.dns_transport.factors import factors, transport
from narrows.study.dns_transport.pooled import FACTORS, Where, mean, select

MATTERS = 1.0
"""Percentage points; a smaller difference is not worth a change."""

LOADED = "under load"
"""The words for a mean over every load except none."""

SECOND = "within_1s_percent"
"""The metric by which transports and queues are compared."""

KEPT = (
    ("tcp-new", "tcp-kept"),
    ("tls-new", "tls-kept"),
    ("https-new", "https-kept"),
    ("quic-new", "quic-kept"),
)
"""Pairs of transports: with a connection for each query, and with persistent connections."""


def title(factor: str, name: str) -> str:
    """A level in words."""
    for each in factors():
        if each.name == factor:
            for level in each.levels:
                if level.name == name:
                    return level.title
    return {"arp": "with ARP", "known": "without ARP", PAPER_H: "paper H's test bed"}.get(
        name, name
    )


def base() -> dict[str, str]:
    """What all cells of the base plane have in common."""
    return {
        factor.name: factor.levels[0].name
        for factor in factors()
        if factor.name in ("path", "round_trip", "reply")
    }


def loaded(runs: pl.DataFrame) -> dict[str, str | list[str]]:
    """The cells of the base plane with any load; if no load was run, those without."""
    loads = [name for name in runs["load"].unique().to_list() if name not in ("none", PAPER_H)]
    return {**base(), "load": sorted(loads) or ["none"]}


def whole(runs: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The runs that can be pooled under load, and the transports that cannot.

    After a failure or an interruption, a transport may lack a queue or a load that others have. Its
    mean cannot be compared with theirs.
    """
    under_load = loaded(runs)
    plane = select(runs, under_load)
    cells = plane.select("transport", "queue", "load").unique(maintain_order=True)
    wanted = cells.select("queue", "load").unique().height
    counts = cells.group_by("transport", maintain_order=True).len()
    short = counts.filter(pl.col("len") < wanted).get_column("transport").to_list()
    lacking = pl.col("transport").is_in(short) & pl.col("load").is_in(under_load["load"])
    return runs.filter(~lacking), short


def pooled_over(runs: pl.DataFrame, factor: str) -> str:
    """Names the levels of a factor and the loads that a mean under load covers."""
    names, count = _pooled(runs, factor)
    those = f"all {count} {factor}s" if len(names) == count else listed(names)
    return f"{those} {under_loads(runs)}"


def under_loads(runs: pl.DataFrame) -> str:
    """Names the loads that a mean under load covers; `LOADED` for all loads."""
    names, count = _pooled(runs, "load")
    if names == [title("load", "none")]:
        return "without load"
    # One of the levels is "no load".
    return LOADED if len(names) == count - 1 else f"under {listed(names)}"


def _pooled(runs: pl.DataFrame, factor: str) -> tuple[list[str], int]:
    """The levels of a factor in runs under load, and how many levels the factor has."""
    there = set(select(runs, loaded(runs))[factor])
    levels = next(each.levels for each in factors() if each.name == factor)
    return [level.title for level in levels if level.name in there], len(levels)


def ranked(runs: pl.DataFrame, factor: str, where: Where) -> list[tuple[str, Interval]]:
    """The levels of a factor, ordered by the share answered within a second, best first.

    A level is left out if it lacks a cell that another level has.
    """
    there = select(runs, where)
    others = [each for each in FACTORS if each != factor]
    most = there.select(others).unique().height
    cells = there.select(FACTORS).unique(maintain_order=True)
    counts = cells.group_by(factor, maintain_order=True).len()
    names = counts.filter(pl.col("len") == most).get_column(factor).to_list()
    found = [(name, mean(runs, SECOND, {**where, factor: name})) for name in names]
    known = [(name, value) for name, value in found if value is not None]
    return sorted(known, key=lambda item: -item[1].mean)


def fewer(gap: Interval) -> bool:
    """Whether the difference is certainly negative, and matters."""
    return gap.high < 0.0 and gap.mean <= -MATTERS


def transport_title(name: str) -> str:
    """A transport in words."""
    return transport(name).title


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def bare(value: Interval) -> str:
    """`98.2 (97.9 to 98.5)`: for a column whose head has the unit."""
    return f"{value.mean:.1f}{_ends(value)}"


def signed(value: Interval) -> str:
    """`+3.1 (+2.0 to +4.2)`: a difference, likewise."""
    return f"{rounded(value.mean, '+')}{_ends(value, '+')}"


def _ends(value: Interval, sign: str = "") -> str:
    """The interval that follows a mean; empty without one, or if rounding hides it."""
    if not math.isfinite(value.low):
        return ""
    low, high = (rounded(end, sign) for end in (value.low, value.high))
    return "" if low == high else f" ({low} to {high})"


def rounded(value: float, sign: str = "", places: int = 1) -> str:
    """A number with this many decimal places. A value that rounds to zero has no sign."""
    # Adding zero turns minus zero into zero.
    nearest = round(value, places) + 0.0
    return f"{nearest:{sign if nearest else ''}.{places}f}"
