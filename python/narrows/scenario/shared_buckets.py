"""DNS groups whose workers keep their port, and so their bucket in queues that hash flows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from narrows.scenario.dns_transports import OverUdp
from narrows.scenario.passed import direction, passed

if TYPE_CHECKING:
    from narrows.scenario.dns import Dns
    from narrows.scenario.tables import Tables

_HASHING_IF_TOLD = ("drr", "tdrr", "qsdrr")


def shared_buckets(scenario: Tables) -> Iterator[tuple[str, str]]:
    """Groups that keep their ports only by default, and the link where that matters.

    The queue of such a link hashes flows to the same buckets for the whole run. Other traffic
    passes it too, so a worker may share its bucket with a download.
    """
    groups = [group for group in scenario.dns if _keeps_ports(group)]
    if not groups:
        return
    network = scenario.network()
    busy = {
        index
        for group in scenario.traffic
        for leg in group.legs()
        for index in passed(network, leg)
    }
    for group in groups:
        own = dict.fromkeys(index for leg in group.legs() for index in passed(network, leg))
        links = (direction(scenario, index) for index in own if index in busy)
        shared = next((link for link in links if _hashes(link.queue.plain())), None)
        if shared is not None:
            yield group.name, shared.name


def _keeps_ports(group: Dns) -> bool:
    over = group.transport
    return isinstance(over, OverUdp) and group.profile is None and over.new_port is None


def _hashes(part: Any) -> bool:
    """Whether a queue, or one within it, hashes flows to buckets and never changes the hash."""
    if isinstance(part, list):
        return any(map(_hashes, part))
    if not isinstance(part, dict):
        return False
    return any(
        key in ("cake", "fq", "fq-codel", "fq-pie")
        or (key == "sfq" and not value["perturb"])
        or (key in _HASHING_IF_TOLD and value["buckets"] is not None)
        or _hashes(value)
        for key, value in part.items()
    )
