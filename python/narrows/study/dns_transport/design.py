"""The cells that the study runs, out of the product of all factors.

The full product would have tens of thousands of cells, and most of them say the same as their
neighbours. The *base plane* has every transport behind every queue under every load, on a clean
path of 20 ms with replies of 100 bytes. The *variations* repeat that plane with one longer round
trip or one longer reply. For two queues and two loads, they also combine each path that drops
something with each longer reply (such a path drops no short replies). `paper-h` is the worst cell
of paper H in its own test bed, with every transport. Its routers either find each other by ARP or
know each other's address.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.errors import NarrowsError, argument
from narrows.scenario.suggestions import suggestion
from narrows.study.dns_transport.factors import TRANSPORTS, Factor, Level, factors
from narrows.study.dns_transport.network import network, testbed

PAPER_H = "paper-h"
"""The load of paper H's worst cell. This name is not among the levels of the factor `load`."""

_PATH_QUEUES = ("fifo", "fq-codel")
_PATH_LOADS = ("downloads", "none")
_NOT_QUICK = "bursts"
"""A base plane without variations leaves out this load, unless the user asks for it."""


class UnknownLevel(NarrowsError):  # noqa: N818 - named after what it is
    """The factor has no such level. The message is one line and names the nearest level."""


class EmptyChoiceError(NarrowsError):
    """The study has no cell with these levels. The message is one line and says what to drop."""


@dataclass(frozen=True)
class Block:
    """A part of the study that runs as one sweep."""

    name: str
    """The name of its folder."""
    scenario: Mapping[str, Any]
    factors: tuple[Factor, ...]
    only: Callable[[tuple[int, ...]], bool]
    fixed: Mapping[str, str]
    """The levels of the factors that it does not vary."""

    @property
    def vary(self) -> dict[str, list[Any]]:
        """The keys and values that the sweep varies."""
        return {factor.key: [level.value for level in factor.levels] for factor in self.factors}

    @property
    def combinations(self) -> int:
        """How many cells it has."""
        ranges = (range(len(factor.levels)) for factor in self.factors)
        return sum(map(self.only, itertools.product(*ranges)))


def load_names() -> list[str]:
    """The loads, including that of paper H's worst cell."""
    load = next(factor for factor in factors() if factor.name == "load")
    return [*(level.name for level in load.levels), PAPER_H]


def blocks(wanted: Mapping[str, Sequence[str]], *, variations: bool) -> list[Block]:
    """The blocks to run.

    Args:
        wanted: Names of levels by factor; a factor that is missing or empty has all levels.
        variations: Whether to vary round trips, replies and paths. Without them, only the base
            plane runs, and it has no bursts.

    Raises:
        UnknownLevel: A factor has no such level.
        EmptyChoiceError: No cell has these levels.
    """
    if found := _parts(wanted, variations=variations):
        return found
    names = "; ".join(
        f"{factor.title} {', '.join(wanted[factor.name])}"
        for factor in factors()
        if wanted.get(factor.name)
    )
    quick = "" if variations else f" that {argument('quick')} runs"
    raise EmptyChoiceError(
        f"no cell{quick} has {names}; hint: leave out {_too_much(wanted, variations=variations)}"
    )


def _parts(wanted: Mapping[str, Sequence[str]], *, variations: bool) -> list[Block]:
    chosen = _chosen(wanted)
    if not variations and not wanted.get("load"):
        chosen["load"].remove(_NOT_QUICK)
    found = []
    if any(name != PAPER_H for name in chosen["load"]):
        found.append(_product(chosen, variations=variations))
    # Paper H's cell has a clean path, and its own round trip and replies.
    its_own = not wanted.get("round_trip") and not wanted.get("reply")
    if (
        PAPER_H in chosen["load"]
        and "red-ecn" in chosen["queue"]
        and "clean" in chosen["path"]
        and its_own
    ):
        found.append(_paper_h(chosen["transport"]))
    return [part for part in found if part.combinations]


def _too_much(wanted: Mapping[str, Sequence[str]], *, variations: bool) -> str:
    """Says which option to leave out of a choice that matches no cell, so that it matches some."""
    if not variations and _parts(wanted, variations=True):
        return argument("quick")
    given = [factor.name for factor in factors() if wanted.get(factor.name)]
    enough = [
        argument(name) for name in given if _parts({**wanted, name: ()}, variations=variations)
    ]
    return " or ".join(enough) or "some of them"


def _chosen(wanted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen = {}
    for factor in factors():
        known = [level.name for level in factor.levels]
        if factor.name == "load":
            known = load_names()
        given = list(wanted.get(factor.name) or known)
        for name in given:
            if name not in known:
                hint = suggestion(name, known, many=len(known))
                raise UnknownLevel(f"{name!r} is not a {factor.title} of this study; hint: {hint}")
        chosen[factor.name] = given
    return chosen


def _product(chosen: Mapping[str, Sequence[str]], *, variations: bool) -> Block:
    all_factors = factors()
    allowed = [
        {place for place, level in enumerate(factor.levels) if level.name in chosen[factor.name]}
        for factor in all_factors
    ]

    def only(places: tuple[int, ...]) -> bool:
        if not all(place in places_of for place, places_of in zip(places, allowed, strict=True)):
            return False
        at = {
            factor.name: factor.levels[place].name
            for factor, place in zip(all_factors, places, strict=True)
        }
        other = {
            factor.name
            for factor, place in zip(all_factors, places, strict=True)
            if place > 0 and factor.name in ("path", "round_trip", "reply")
        }
        if not other:
            return True
        if not variations:
            return False
        if "path" in other:
            few = at["queue"] in _PATH_QUEUES and at["load"] in _PATH_LOADS
            return few and other == {"path", "reply"}
        return len(other) == 1

    return Block("product", network(), all_factors, only, {"neighbours": "arp"})


def _paper_h(transports: Sequence[str]) -> Block:
    scenario = copy.deepcopy(testbed())
    scenario["duration"] = "300 s"
    links = {link["name"]: link for link in scenario["links"]}
    # Paper H's settings for 200 ms, 20±5 ms, as in the reproduction.
    links["bottleneck"]["queue"].update(
        {"limit": "250000 B", "min": "12374 B", "max": "137374 B", "burst": 38}
    )
    links["internet"]["delay"] = "20 ms"
    links["internet"]["jitter"]["deviation"] = "5 ms"
    scenario["traffic"][0]["ecn_share"] = 1.0
    (group,) = scenario["dns"]
    # The same lengths, but of DNS messages, which all transports share. Fewer queries will do,
    # because the third digit does not matter here.
    del group["query_size"], group["reply_size"], group["transport"]
    group |= {
        "messages": {"query": "36 B", "reply": "72 B"},
        "warm_up": 10,
        "queries": 40,
        "gives_up": "17 s",
    }
    lines = tuple(Level(line.name, line.title, [{**group, **line.keys}]) for line in TRANSPORTS)
    neighbours = (Level("arp", "with ARP", "arp"), Level("known", "without ARP", "known"))
    varied = (
        Factor("transport", "transport", "dns", lines),
        Factor("neighbours", "neighbours", "links.bottleneck.neighbours", neighbours),
    )

    def only(places: tuple[int, ...]) -> bool:
        return lines[places[0]].name in transports

    fixed = {
        "queue": "red-ecn",
        "load": PAPER_H,
        "path": "clean",
        "round_trip": "40±10ms",
        "reply": "72B",
    }
    return Block("paper-h", scenario, varied, only, fixed)
