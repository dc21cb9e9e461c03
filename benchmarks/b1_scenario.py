"""Scenario B1 from `b1/b1.toml`, and the parameters with which ns-2 and ns-3 run the same."""

import tomllib
from pathlib import Path
from typing import Any

import peers
from narrows import Scenario

FOLDER = Path(__file__).parent / "b1"
DISCIPLINES = ("droptail", "red")


def scenario(discipline: str, seconds: float) -> Scenario:
    """B1 with Drop Tail or RED at the bottleneck, for this many simulated seconds."""
    return Scenario.from_dict(_values(discipline, seconds))


def scaled(discipline: str, seconds: float, flows: int) -> Scenario:
    """B1 with another number of flows, each with the same share of rate and buffer as in B1.

    Above B1's own number of flows (500), each host has several connections, and its link is faster
    by that factor.

    Raises:
        ValueError: The flows cannot be spread evenly over the hosts.
    """
    values = _values(discipline, seconds)
    links = {link["name"]: link for link in values["links"]}
    (traffic,) = values["traffic"]
    original = traffic["count"]
    hosts = min(flows, original)
    if flows % hosts:
        raise ValueError(f"{flows} flows cannot be spread over {hosts} hosts")
    bottleneck = links["bottleneck"]
    queue = bottleneck["forward"]["queue"]
    for key in ("limit", "min", "max"):
        if key in queue:
            queue[key] = type(queue[key])(queue[key] * flows / original)
    bottleneck["queue"]["limit"] = max(bottleneck["queue"]["limit"], 20 * flows)
    bottleneck["rate"] = _times(bottleneck["rate"], flows / original)
    for name in ("sender{i}", "receiver{i}"):
        links[name]["count"] = hosts
        links[name]["rate"] = _times(links[name]["rate"], flows / hosts)
        links[name]["queue"]["limit"] *= flows // hosts
    traffic["count"] = hosts
    traffic["connections"] = flows // hosts
    return Scenario.from_dict(values)


def parameters(seconds: float) -> dict[str, dict[str, Any]]:
    """The peers' parameters for each discipline: ns-3's keys and values, and ns-2's words."""
    plans = {discipline: scenario(discipline, seconds).plan() for discipline in DISCIPLINES}
    return {
        discipline: {"ns-3": peers.parameters(plan), "ns-2": peers.ns2_words(plan)}
        for discipline, plan in plans.items()
    }


def _values(discipline: str, seconds: float) -> dict[str, Any]:
    values = tomllib.loads((FOLDER / "b1.toml").read_text("utf-8"))
    values["duration"] = f"{seconds:g} s"
    if discipline == "red":
        (bottleneck,) = (link for link in values["links"] if link["name"] == "bottleneck")
        bottleneck["forward"]["queue"] = tomllib.loads((FOLDER / "red.toml").read_text("utf-8"))
    return values


def _times(quantity: str, factor: float) -> str:
    number, unit = quantity.split(" ")
    return f"{float(number) * factor:g} {unit}"
