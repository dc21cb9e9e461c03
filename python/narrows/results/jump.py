"""Where the 95th percentile of response times says nothing: at the jump to a repeated query.

An unanswered query is asked again after seconds, so response times have a gap. If about 95 % of the
answered queries needed no repetition, the percentile lies on one side of the gap in one run and on
the other in the next, whatever else they have in common.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["jumps"]

_SHARE = 0.95
_DEVIATIONS = 2.0
"""Of a share of independent queries: that far from 95 %, chance does not decide the percentile."""


def jumps(summary: Mapping[str, Any]) -> list[str]:
    """A sentence for each DNS group whose 95th percentile stands at the jump; most often none."""
    groups = summary.get("dns_groups") or {"": summary.get("dns")}
    found = []
    for name, dns in groups.items():
        at_once = _at_once(dns or {})
        if at_once is not None:
            words = f"DNS group {name}" if name else "DNS"
            found.append(
                f"{words}: {100.0 * at_once:.1f} % of the answered queries needed no repetition, "
                "so chance decides whether the response time that 95 % of them keep is that of a "
                "repeated query; compare the shares answered instead"
            )
    return found


def _at_once(dns: Mapping[str, Any]) -> float | None:
    """The share of the answered queries of which no attempt failed, if it is near 95 %."""
    queries, without = dns.get("queries"), dns.get("without_retry_percent")
    if not queries or without is None:
        return None
    answered = queries - dns["unanswered"]
    if answered <= 0:
        return None
    share = 0.01 * without * queries / answered
    deviation = math.sqrt(_SHARE * (1.0 - _SHARE) / answered)
    return share if abs(share - _SHARE) <= _DEVIATIONS * deviation and share < 1.0 else None
