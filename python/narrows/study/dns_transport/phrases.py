"""Levels, intervals and differences in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport.design import PAPER_H
from narrows.study.dns_transport.factors import PLACES, TRANSPORTS, factors, transport
from narrows.study.dns_transport.pooled import Where, select

MATTERS = 1.0
"""Percentage points; a smaller difference is not worth a change."""

SECOND = "within_1s_percent"
"""The metric by which transports and queues are compared."""

PAGE = "page_p50_s"
"""The metric beside it: how long a page takes whose names are asked for over the transport."""

UNMARKED = [line.name for line in TRANSPORTS if not line.unmarked]
"""The transports without ECN, which run behind every queue."""

KEPT = tuple((f"{kind}-new", f"{kind}-kept") for kind in ("tcp", "tls", "https", "quic", "http3"))
"""Pairs of transports: with a connection for each query, and with persistent connections."""


@cache
def _titles() -> dict[tuple[str, str], str]:
    found = {
        ("neighbours", "arp"): "with ARP",
        ("neighbours", "known"): "without ARP",
        ("place", PAPER_H): "paper H",
    }
    for place in PLACES:
        found["place", place.name] = place.title
        for factor in factors(place):
            found |= {(factor.name, level.name): level.title for level in factor.levels}
    return found


def title(factor: str, name: str) -> str:
    """A level in words."""
    return _titles().get((factor, name), name)


def base() -> dict[str, str]:
    """What all cells of the places' planes have in common."""
    return {
        factor.name: factor.levels[0].name
        for factor in factors()
        if factor.name in ("path", "round_trip", "reply")
    }


def plane(runs: pl.DataFrame, place: str) -> pl.DataFrame:
    """The runs of a place's plane."""
    return select(runs, {**base(), "place": place})


def loaded(plane: pl.DataFrame) -> Where:
    """The loads of a plane except none; if no other was run, none."""
    loads = [name for name in plane["load"].unique().to_list() if name != "none"]
    return {"load": sorted(loads) or ["none"]}


def present(runs: pl.DataFrame, factor: str) -> list[str]:
    """The levels for which there are runs, in the order of the factors' tables."""
    there = set(runs[factor].unique().to_list())
    return [name for of, name in _order() if of == factor and name in there]


@cache
def _order() -> tuple[tuple[str, str], ...]:
    names = [(f.name, level.name) for place in PLACES for f in factors(place) for level in f.levels]
    places = [("place", place.name) for place in PLACES]
    return tuple(dict.fromkeys([*names, *places, ("neighbours", "arp"), ("neighbours", "known")]))


def fewer(gap: Interval) -> bool:
    """Whether the difference is certainly negative, and matters."""
    return gap.high < 0.0 and gap.mean <= -MATTERS


def transport_title(name: str) -> str:
    """A transport in words."""
    return transport(name).title


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def bare(value: Interval, places: int = 1) -> str:
    """`98.2 (97.9 to 98.5)`: for a column whose head has the unit."""
    return f"{value.mean:.{places}f}{_ends(value, '', places)}"


def signed(value: Interval, places: int = 1) -> str:
    """`+3.1 (+2.0 to +4.2)`: a difference, likewise."""
    return f"{rounded(value.mean, '+', places)}{_ends(value, '+', places)}"


def _ends(value: Interval, sign: str, places: int) -> str:
    """The interval that follows a mean; empty without one, or if rounding hides it."""
    if not math.isfinite(value.low):
        return ""
    low, high = (rounded(end, sign, places) for end in (value.low, value.high))
    return "" if low == high else f" ({low} to {high})"


def rounded(value: float, sign: str = "", places: int = 1) -> str:
    """A number with this many decimal places. A value that rounds to zero has no sign."""
    # Adding zero turns minus zero into zero.
    nearest = round(value, places) + 0.0
    return f"{nearest:{sign if nearest else ''}.{places}f}"
