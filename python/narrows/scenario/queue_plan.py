"""From a queue of the language to the simulator's settings, those of `crates/qdisc`."""

from __future__ import annotations

from typing import Any

from narrows.scenario.queues import AnyQueue, Band, Class, Classes, Match, Prio, Red, Red1993, Tdrr

__all__ = ["queue_plan"]


def queue_plan(queue: AnyQueue, rate: int) -> dict[str, Any]:
    """The plan's form of a queue.

    Args:
        queue: What the scenario says.
        rate: What serves it, in bits per second.

    Examples:
        >>> from narrows.scenario import Pfifo
        >>> queue_plan(Pfifo(limit=5), 1_000_000)
        {'pfifo': {'limit': 5}}
    """
    match queue:
        case Red():
            return {"red": _red(queue, rate)}
        case Red1993():
            return {"red1993": _red_1993(queue, rate)}
        case Tdrr():
            sample = queue.sample if queue.sample == "packet" else {"interval": queue.sample}
            return {"tdrr": {**_settings(queue), "sample": sample}}
        case Prio():
            return {"prio": {"bands": [_entry(band, rate) for band in queue.bands]}}
        case Classes():
            return {"classes": {"classes": [_class(entry, rate) for entry in queue.classes]}}
        case _:
            return {queue.kind: _settings(queue)}


def _entry(entry: Band | Class, rate: int) -> dict[str, Any]:
    return {
        "name": entry.name,
        "match": [_filter(match) for match in entry.match],
        "queue": queue_plan(entry.queue, rate),
    }


def _class(entry: Class, rate: int) -> dict[str, Any]:
    served = rate if entry.rate is None else min(rate, entry.rate)
    return {**_entry(entry, served), "rate": entry.rate, "burst": entry.burst}


def _filter(match: Match) -> dict[str, Any]:
    return {key: getattr(match, key) for key in type(match).model_fields}


def _settings(queue: AnyQueue) -> dict[str, Any]:
    """The settings of a queue whose keys they are."""
    return {key: getattr(queue, key) for key in type(queue).model_fields if key != "kind"}


def _red(queue: Red, rate: int) -> dict[str, Any]:
    return {
        "limit": queue.limit,
        "min": queue.lower,
        "max": queue.upper,
        "avpkt": queue.avpkt,
        "burst": queue.packets,
        "probability": queue.probability,
        "bandwidth": rate if queue.bandwidth is None else queue.bandwidth,
        "ecn": queue.ecn,
        "harddrop": queue.harddrop,
        "nodrop": queue.nodrop,
        "adaptive": queue.adaptive,
    }


def _red_1993(queue: Red1993, rate: int) -> dict[str, Any]:
    in_bytes = {"bytes": {"mean_packet": queue.mean_packet}}
    adaptive = queue.adaptive
    return {
        "unit": "packets" if queue.unit == "packets" else in_bytes,
        "limit": queue.limit,
        "min": queue.min,
        "max": queue.max,
        "weight": queue.weight,
        "max_p": queue.max_p,
        "gentle": queue.gentle,
        "wait": queue.wait,
        "ecn": queue.ecn,
        "mark_above_max": queue.mark_above_max,
        "adaptive": None
        if adaptive is None
        else {key: getattr(adaptive, key) for key in type(adaptive).model_fields},
        "bandwidth": rate if queue.bandwidth is None else queue.bandwidth,
    }
