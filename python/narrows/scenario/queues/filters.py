"""The filters of a queue in a plan, and the hosts that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ENDS = ("source", "destination")
"""The keys of a filter that name a host."""
_ENTRIES = {"prio": "bands", "classes": "classes"}
"""The key of each kind of queue whose entries have filters."""


def filters(queue: Mapping[str, Any], key: str = "queue") -> Iterator[tuple[str, dict[str, Any]]]:
    """The filters of a queue and of the queues inside it, each after its key.

    Args:
        queue: The queue as in the plan: its kind and settings.
        key: The queue's own key.
    """
    ((kind, settings),) = queue.items()
    name = _ENTRIES.get(kind, "")
    for number, entry in enumerate(settings[name] if name else ()):
        below = f"{key}.{name}[{number}]"
        for index, match in enumerate(entry["match"]):
            yield f"{below}.match[{index}]", match
        yield from filters(entry["queue"], f"{below}.queue")


def with_numbers(queue: dict[str, Any], index: Mapping[str, int]) -> dict[str, Any]:
    """Replaces the names of hosts in a queue of the plan by their numbers; the same queue."""
    for _, match in filters(queue):
        for end in ENDS:
            if match[end] is not None:
                match[end] = index[match[end]]
    return queue
