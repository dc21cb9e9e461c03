"""The cells that the study runs, out of the product of all factors.

Each place has a plane: every transport behind every queue of the place under every load, on a clean
path of 20 ms with replies of 100 bytes. Where the outcome is known, a cell is left out: without
load, all queues are empty, so only the FIFO runs; and behind queues that do not mark, transports
with ECN do not run. At the operator's, *variations* of the plane have one longer round trip or one
longer reply, or a path that drops something with each longer reply. `paper-h` is the worst cell of
paper H in its own test bed, with every transport. Its routers either find each other by ARP or know
each other's address.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.errors import NarrowsError, argument
from narrows.scenario.suggestions import suggestion
from narrows.study.dns_transport.factors import (
    MARKING,
    OPERATOR,
    PLACES,
    Factor,
    Level,
    Place,
    factors,
    transport,
    transport_levels,
)
from narrows.study.dns_transport.network import network, testbed

PAPER_H = "paper-h"
"""The place of paper H's worst cell."""

_VARIED = ("path", "round_trip", "reply")
VARIED_QUEUES = ("fifo", "fq-codel")
FEW_LOADS = ("cubic", "none")
"""A study without variations leaves out the other loads, unless the user asks for them."""


class UnknownLevel(NarrowsError):  # noqa: N818 - named after what it is
    """The factor has no such level. The message is one line and names the nearest level."""


class EmptyChoiceError(NarrowsError):
    """The study has no cell with these levels. The message is one line and says what to drop."""


@dataclass(frozen=True)
class Block:
    """A part of the study that runs as one sweep."""

    name: str
    """The place, and the name of its folder."""
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


def level_names() -> dict[str, list[str]]:
    """The names of all levels, by factor; places differ in their queues."""
    names = {factor.name: [level.name for level in factor.levels] for factor in factors()}
    for place in PLACES:
        names["queue"] += [level.name for level in place.queues]
    names["queue"] = list(dict.fromkeys(names["queue"]))
    return {"place": [*(place.name for place in PLACES), PAPER_H], **names}


def blocks(wanted: Mapping[str, Sequence[str]], *, variations: bool) -> list[Block]:
    """The blocks to run.

    Args:
        wanted: Names of levels by factor; a factor that is missing or empty has all levels.
        variations: Whether to vary round trips, replies and paths. Without them, only the places'
            planes run, with CUBIC downloads and without load.

    Raises:
        UnknownLevel: A factor has no such level.
        EmptyChoiceError: No cell has these levels.
    """
    if found := _parts(wanted, variations=variations):
        return found
    names = "; ".join(
        f"{_words(name)} {', '.join(wanted[name])}" for name in level_names() if wanted.get(name)
    )
    quick = "" if variations else f" that {argument('quick')} runs"
    raise EmptyChoiceError(
        f"no cell{quick} has {names}; hint: leave out {_too_much(wanted, variations=variations)}"
    )


def _words(factor: str) -> str:
    return factor.replace("_", " ")


def _parts(wanted: Mapping[str, Sequence[str]], *, variations: bool) -> list[Block]:
    chosen = _chosen(wanted)
    if not variations and not wanted.get("load"):
        chosen["load"] = list(FEW_LOADS)
    found = [
        _plane(place, chosen, variations=variations)
        for place in PLACES
        if place.name in chosen["place"]
    ]
    # Paper H's cell has its own queue, load, path, round trip and replies.
    own = ("queue", "load", "path", "round_trip", "reply")
    if PAPER_H in chosen["place"] and not any(wanted.get(name) for name in own):
        found.append(_paper_h(chosen["transport"]))
    return [part for part in found if part.combinations]


def _too_much(wanted: Mapping[str, Sequence[str]], *, variations: bool) -> str:
    """Says which option to leave out of a choice that matches no cell, so that it matches some."""
    if not variations and _parts(wanted, variations=True):
        return argument("quick")
    given = [name for name in level_names() if wanted.get(name)]
    enough = [
        argument(name) for name in given if _parts({**wanted, name: ()}, variations=variations)
    ]
    return " or ".join(enough) or "some of them"


def _chosen(wanted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen = {}
    for factor, names in level_names().items():
        chosen[factor] = list(wanted.get(factor) or names)
        for name in chosen[factor]:
            if name not in names:
                hint = suggestion(name, names, many=len(names))
                raise UnknownLevel(
                    f"{name!r} is not a {_words(factor)} of this study; hint: {hint}"
                )
    return chosen


def _plane(place: Place, chosen: Mapping[str, Sequence[str]], *, variations: bool) -> Block:
    scenario = copy.deepcopy(network())
    links = {link["name"]: link for link in scenario["links"]}
    links["bottleneck"]["rate"] = place.rate
    scenario["duration"] = place.duration
    its_factors = factors(place)
    names = [[level.name for level in factor.levels] for factor in its_factors]

    def only(places: tuple[int, ...]) -> bool:
        at = {
            factor.name: of[number]
            for factor, of, number in zip(its_factors, names, places, strict=True)
        }
        if not all(name in chosen[factor] for factor, name in at.items()):
            return False
        if at["load"] == "none" and at["queue"] != "fifo":
            return False
        marked = bool(transport(at["transport"]).unmarked)
        if marked and at["queue"] not in MARKING:
            return False
        varied = {name for name, number in zip(at, places, strict=True) if number} & {*_VARIED}
        if not varied:
            return True
        if not variations or marked or place is not OPERATOR:
            return False
        if "path" in varied:
            return at["load"] == "none" and varied == {"path", "reply"}
        few = at["queue"] in VARIED_QUEUES and at["load"] in FEW_LOADS
        return few and len(varied) == 1

    fixed = {"place": place.name, "neighbours": "arp"}
    return Block(place.name, scenario, its_factors, only, fixed)


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
    neighbours = (Level("arp", "with ARP", "arp"), Level("known", "without ARP", "known"))
    lines = transport_levels(group)
    varied = (
        Factor("transport", "transport", "dns", lines),
        Factor("neighbours", "neighbours", "links.bottleneck.neighbours", neighbours),
    )

    def only(places: tuple[int, ...]) -> bool:
        return lines[places[0]].name in transports

    fixed = {
        "place": PAPER_H,
        "queue": "red-ecn",
        "load": "cubic-ecn",
        "path": "clean",
        "round_trip": "40±10ms",
        "reply": "72B",
    }
    return Block(PAPER_H, scenario, varied, only, fixed)
