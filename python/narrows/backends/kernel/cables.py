"""What veth hands over with a packet and a cable does not, on kernels that `prepare` did not build.

`skb_scrub_packet` (net/core/skbuff.c, Linux 6.1 to 7.3) clears much of the kernel's record of a
packet between two namespaces, but not these two fields; the edits of guest.toml do.

- `skb->hash`: the random number of the sending socket. `fq_codel_hash`, fq_pie, CAKE and fq take
  it, and hash the headers only of packets without it. (SFQ always hashes the headers:
  `skb_get_hash_perturb`.) TCP draws a new number at each timeout, unless `net.core.txrehash` is 0
  (since 5.18), as the backend sets it on all hosts.
- `skb->dst_pending_confirm`: `sock_confirm_neigh` confirms the next neighbour of every router on
  the way, so the entry does not become stale, and ARP is not asked.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from narrows.backends.backend import BackendError
from narrows.backends.kernel import kernels
from narrows.backends.kernel.available import choose

if TYPE_CHECKING:
    from narrows.scenario import Scenario

_TXREHASH = (5, 18)
"""The first version with `net.core.txrehash`."""

_HINT = "hint: --backend kernel-virtual hands over only what a cable would"


def unlike_cables(scenario: Scenario, kernel: str | None) -> list[str]:
    """A sentence for each link on which what veth hands over changes results.

    Args:
        scenario: What would be run, with TCP.
        kernel: The name of the kernel; None for the first that is available.
    """
    if kernel == "virtual" or kernel in kernels.names():
        return []
    found = list(_sentences(scenario))
    if found and kernel is None:
        try:
            return [] if choose().virtual else found
        except BackendError:
            return []
    return found


def _sentences(scenario: Scenario) -> Iterator[str]:
    # Debian's User-Mode Linux is 6.1 or later, so the version of this machine's kernel decides.
    version = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    moves = "" if version >= _TXREHASH else ", which changes at each timeout,"
    for link in scenario.links:
        for name in ("forward", "backward"):
            direction = link.direction(name)
            if kind := _sorts_by_hash(direction.queue):
                yield (
                    f"{direction.name}: {kind} sorts TCP's packets by a random number of the "
                    f"sending socket{moves} and not by their headers; {_HINT}"
                )
        if link.neighbours == "arp":
            yield (
                f"{link.name}: TCP's packets confirm the neighbours of the routers that they pass, "
                f"so entries expire less often than behind a cable; {_HINT}"
            )


def _sorts_by_hash(queue: Any) -> str | None:
    """The kind of a queue that does, which may be inside this one."""
    if queue.kind in ("cake", "fq", "fq-codel", "fq-pie"):
        return str(queue.kind)
    inner = [*getattr(queue, "classes", ()), *getattr(queue, "bands", ())]
    return next(filter(None, (_sorts_by_hash(each.queue) for each in inner)), None)
