"""Finds percentiles of response times that are meaningless, at the jump to a repeated query.

A client repeats an unanswered query after seconds, so response times have a gap. If about 95 % of
the answered queries needed no repetition, the 95th percentile lies on one side of the gap in one
run and on the other side in the next, even if the runs are alike. With about 99 %, the same holds
for the 99th percentile.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

_PERCENTILES = {"response_p95_ms": 95, "response_p99_ms": 99}

_DEVIATIONS = 2.0
"""The distance from the jump, in standard deviations of a share of independent queries, beyond
which chance does not decide the percentile."""

_MOST_NAMES = 3

_Part = tuple[str, Sequence[Mapping[str, Any] | None]]
"""A name, and the DNS metrics of runs that differ only in their seeds; None if a group has none."""


def jumps(summary: Mapping[str, Any]) -> list[str]:
    """A sentence for each percentile that is at the jump in some DNS group; usually none."""
    groups = summary.get("dns_groups")
    if not groups:
        return _sentences([("DNS", [summary.get("dns") or {}])], _PERCENTILES, "")
    parts = [(f"DNS group {name}", [metrics]) for name, metrics in groups.items()]
    return _sentences(parts, _PERCENTILES, "all DNS groups")


def is_at_jump(summary: Mapping[str, Any], key: str) -> bool:
    """Whether a percentile, such as `response_p99_ms`, is at the jump in some DNS group."""
    groups = summary.get("dns_groups") or {"": summary.get("dns") or {}}
    percent = _PERCENTILES.get(key)
    return percent is not None and any(
        _at_once([dns], percent) is not None for dns in groups.values()
    )


def jumps_of(
    named: Sequence[tuple[str, Sequence[Mapping[str, Any]]]], shown: Collection[str], every: str
) -> list[str]:
    """The same for several combinations or groups of runs, for the metrics that are shown.

    Args:
        named: The name of each, and the summaries of its runs.
        shown: Paths of the metrics that are shown.
        every: The name of all of them together.
    """
    paths = [path.rpartition(".") for path in shown]
    prefixes = dict.fromkeys(prefix for prefix, _, key in paths if key in _PERCENTILES)
    of_groups = [prefix for prefix in prefixes if prefix.startswith("dns_groups.")]
    parts: list[_Part] = []
    for prefix in of_groups or prefixes:
        group = prefix.partition(".")[2]
        for name, summaries in named:
            found = [
                (summary.get("dns_groups") or {}).get(group) if group else summary.get("dns")
                for summary in summaries
            ]
            words = [name, *([f"DNS group {group}"] if len(of_groups) > 1 else [])]
            parts.append((", ".join(filter(None, words)) or "DNS", [dns for dns in found if dns]))
    keys = {key for _, _, key in paths}
    return _sentences(parts, keys, every)


def _sentences(parts: Sequence[_Part], keys: Collection[str], every: str) -> list[str]:
    found = []
    for key, percent in _PERCENTILES.items():
        if key not in keys:
            continue
        at = {name: share for name, dns in parts if (share := _at_once(dns, percent)) is not None}
        if not at:
            continue
        names = list(at)[:_MOST_NAMES]
        if len(at) == len(parts) > 1:
            names = [every]
        elif len(at) > _MOST_NAMES:
            names.append(f"{len(at) - _MOST_NAMES} more")
        ends = list(
            dict.fromkeys(f"{100.0 * end:.1f}" for end in (min(at.values()), max(at.values())))
        )
        found.append(
            f"{'; '.join(names)}: {' to '.join(ends)} % of the answered queries were asked once, "
            f'so "{percent} % within" may jump between their times and those of repeated queries; '
            "compare the shares answered"
        )
    return found


def _at_once(runs: Sequence[Mapping[str, Any] | None], percent: int) -> float | None:
    """The share of answered queries without a failed attempt, if the percentile is at the jump."""
    counts = [
        (0.01 * dns["without_retry_percent"] * dns["queries"], dns["queries"] - dns["unanswered"])
        for dns in runs
        if dns and dns.get("queries") and dns.get("without_retry_percent") is not None
    ]
    counts = [(without, answered) for without, answered in counts if answered > 0]
    if not counts:
        return None
    answered = math.fsum(answered for _, answered in counts)
    share = math.fsum(without for without, _ in counts) / answered
    level = 0.01 * percent
    # This is the deviation of a single run, because its percentile lies on one side of the jump.
    deviation = math.sqrt(level * (1.0 - level) * len(counts) / answered)
    sides = {without / answered >= level for without, answered in counts}
    near = abs(share - level) <= _DEVIATIONS * deviation
    return share if share < 1.0 and (near or len(sides) > 1) else None
