"""Which share of DNS queries shows how well a run did: first attempts, or answers within a second.

Over UDP, an answer at the first attempt means that no packet was lost. Elsewhere, attempts mean
something else. A truncated reply leads to a second attempt over TCP although nothing was lost. Over
a connection, an attempt goes on however often TCP retransmits a segment. Attempts therefore cannot
compare transports, or runs with truncation; answers within a second and response times can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FIRST_ATTEMPT = "dns.first_attempt_percent"
WITHIN_1S = "dns.within_1s_percent"

Summaries = Sequence[Mapping[str, Any]]


def attempts_mislead(summaries: Summaries) -> bool:
    """Whether replies were truncated, or queries went over more than one transport."""
    asked = [dns for summary in summaries if (dns := summary.get("dns"))]
    transports = {name for dns in asked for name in dns.get("transports") or ()}
    return len(transports) > 1 or any(dns.get("truncated_percent") for dns in asked)


def is_first_attempt(key: str) -> bool:
    """Whether a metric is the share of first attempts, of all queries or of a group's."""
    return key == FIRST_ATTEMPT or (
        key.startswith("dns_groups.") and key.endswith(FIRST_ATTEMPT.removeprefix("dns"))
    )


def counted(summaries: Summaries, key: str) -> tuple[int, int] | None:
    """Successes and queries of all runs together, by the key of one of the two shares.

    The share may be that of a group. The result is None for another key, and if the share is not of
    all queries: answers within a second leave out the last second of a run that left queries open.
    """
    section, _, metric = key.rpartition(".")
    group = section.removeprefix("dns_groups.")
    asked = [
        summary.get("dns") if section == "dns" else (summary.get("dns_groups") or {}).get(group)
        for summary in summaries
    ]
    if not all(dns and dns["queries"] for dns in asked):
        return None
    total = sum(dns["queries"] for dns in asked if dns)
    if metric == FIRST_ATTEMPT.removeprefix("dns."):
        return sum(sum(dns["answered_at_attempt"][:1]) for dns in asked if dns), total
    if metric == WITHIN_1S.removeprefix("dns.") and not any(
        dns["unfinished"] for dns in asked if dns
    ):
        shares = [(dns.get("within_1s_percent"), dns["queries"]) for dns in asked if dns]
        counts = [round(share * of / 100.0) for share, of in shares if share is not None]
        return (sum(counts), total) if len(counts) == len(shares) else None
    return None
